// SPDX-License-Identifier: GPL-2.0-only
/*
 * Counts the refills and samples that no habd read.
 *
 * The module counts while it is loaded, the BPF program only while a habd runs. So
 *
 *	missed = the module's counts when this habd starts - what earlier habds have read
 *
 * No event that a habd did not read counts as read. A habd that is killed cannot write at its end
 * how far it has read: each writes this once a second, and later events count as missed. The
 * module's counter and the BPF program's cannot be read at one moment: the module counts an event
 * first, and its counter is read last, so events in between only make the difference too large. The
 * smallest of several differences is used; it is exact if no event came in between.
 */
#include "daemon/habd/state/missed.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/collect/feed.h"
#include "daemon/shared/module_files.h"
#include "daemon/shared/util.h"

#define MODULE "/sys/module/hab"
/* The file: written in one piece. */
struct progress_file {
	uint64_t module;	     /* differs each time the module is loaded */
	struct missed_counts seen;   /* read, or missed, since the module was loaded */
	struct missed_counts missed; /* of these: missed */
};

struct missed {
	int fd;			     /* of the file; -1: it cannot be written */
	uint64_t module;	     /* differs each time the module is loaded */
	struct missed_counts seen;   /* read by the previous habd, since the module was loaded */
	struct missed_counts before; /* missed before that habd ended */
	struct missed_counts start;  /* the module's counts when this habd began to count */
	struct missed_counts now;    /* the module's counts */
};

static uint64_t module_number(void)
{
	struct stat status;

	/* The kernel numbers the folders of sysfs in the order of their making. */
	return stat(MODULE, &status) ? 0 : (uint64_t)status.st_ino;
}

static bool read_module(struct missed *missed)
{
	return module_number_read(MODULE_REFILLS, &missed->now.of[MISSED_REFILLS]) &&
	       module_number_read(MODULE_REFILL_BYTES, &missed->now.of[MISSED_BYTES]) &&
	       module_number_read(MODULE_SAMPLED, &missed->now.of[MISSED_SAMPLES]);
}

static void find_start(struct missed *missed, const struct feed_totals *totals)
{
	const struct hab_machine_totals *machine = &totals->of.machine;
	const uint64_t counted[MISSED_COUNTS] = {
		[MISSED_REFILLS] = machine->refills + totals->of.missed_refills,
		[MISSED_BYTES] = machine->bytes,
		[MISSED_SAMPLES] = machine->sampled + machine->lost + machine->replaced,
	};
	uint64_t rest;
	unsigned int i;

	for (i = 0; i < MISSED_COUNTS; i++) {
		rest = missed->now.of[i] > counted[i] ? missed->now.of[i] - counted[i] : 0;
		if (rest < missed->start.of[i])
			missed->start.of[i] = rest;
	}
}

static void write_progress(struct missed *missed)
{
	struct progress_file file = { missed->module, missed->now, missed_counts(missed) };

	if (missed->fd < 0 || pwrite(missed->fd, &file, sizeof(file), 0) == sizeof(file))
		return;
	say("the counts that this habd has read cannot be written: %s: the next habd will report "
	    "too many refills and samples as missed",
	    strerror(errno));
	close(missed->fd);
	missed->fd = -1;
}

/* Reads what the previous habd wrote. False if the module was loaded again since then. */
static bool read_progress(struct missed *missed)
{
	struct progress_file file;
	unsigned int i;

	if (missed->fd < 0 || pread(missed->fd, &file, sizeof(file), 0) != sizeof(file) ||
	    file.module != missed->module)
		return false;
	for (i = 0; i < MISSED_COUNTS; i++)
		if (file.seen.of[i] > missed->now.of[i])
			return false;
	missed->seen = file.seen;
	missed->before = file.missed;
	return true;
}

static void say_missed(const struct missed *missed, bool since_another)
{
	struct missed_counts all = missed_counts(missed);
	char human[32];
	unsigned int i;

	for (i = 0; i < MISSED_COUNTS; i++)
		all.of[i] -= missed->before.of[i];
	human_bytes(all.of[MISSED_BYTES], human, sizeof(human));
	if (all.of[MISSED_REFILLS] || all.of[MISSED_SAMPLES])
		say("missed since %s: %" PRIu64 " refills (%s), and %" PRIu64
		    " samples; they are in the totals, and in no profile",
		    since_another ? "the last habd" : "the module was loaded",
		    all.of[MISSED_REFILLS], human, all.of[MISSED_SAMPLES]);
}

void missed_free(struct missed *missed)
{
	if (missed && missed->fd >= 0)
		close(missed->fd);
	free(missed);
}

struct missed *missed_new(const char *socket_path, const struct feed_totals *totals)
{
	struct missed *missed = xcalloc(1, sizeof(*missed));
	bool since_another;
	char *path;

	missed->fd = -1;
	missed->module = module_number();
	if (!read_module(missed)) {
		missed_free(missed);
		return NULL;
	}
	path = xformat("%s.progress", socket_path);
	missed->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (missed->fd < 0)
		say("%s cannot be made: %s: the next habd will count more as missed", path,
		    strerror(errno));
	free(path);
	since_another = read_progress(missed);
	memset(&missed->start, 0xff, sizeof(missed->start));
	find_start(missed, totals);
	say_missed(missed, since_another);
	write_progress(missed);
	return missed;
}

void missed_update(struct missed *missed, const struct feed_totals *totals)
{
	if (!missed || !read_module(missed))
		return;
	if (totals)
		find_start(missed, totals);
	write_progress(missed);
}

struct missed_counts missed_counts(const struct missed *missed)
{
	struct missed_counts all = { 0 };
	unsigned int i;

	for (i = 0; missed && i < MISSED_COUNTS; i++) {
		all.of[i] = missed->before.of[i];
		if (missed->start.of[i] > missed->seen.of[i])
			all.of[i] += missed->start.of[i] - missed->seen.of[i];
	}
	return all;
}
