// SPDX-License-Identifier: GPL-2.0-only
/*
 * Counts what passed while no habd read.
 *
 * The module counts for as long as it is loaded, the BPF program for as long as habd lives. So
 * what the module has more, when the program begins to count, was not read by this habd; and
 * less what the one before had seen, it was read by none.
 *
 * The hard case is a habd that is killed: it cannot say how far it came. So each says so all
 * the time, ten times a second, in a file that outlives it; what it read after that is missed,
 * too, as it went with it. The other one is to read two counters at once: events come between.
 * The module's is read last and counts first, so the difference is never too small, and the
 * smallest one that was seen is the best; without events between the two it is exact.
 */
#include "daemon/state/missed.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/feeds/feed.h"
#include "daemon/shared/module_files.h"

#define MODULE "/sys/module/hab"
#define FORMAT                                                                                    \
	"module %" PRIu64 " seen %" PRIu64 " %" PRIu64 " %" PRIu64 " missed %" PRIu64 " %" PRIu64 \
	" %" PRIu64
#define LENGTH 200 /* of the file, whatever the numbers: it is written in one piece */

struct missed {
	int fd;			     /* -1: nobody will know how far this one came */
	uint64_t module;	     /* another one for each time that it is loaded */
	struct missed_counts seen;   /* by the habd before, since the module was loaded */
	struct missed_counts before; /* missed before that one ended */
	struct missed_counts start;  /* what the module had when this one began to count */
	struct missed_counts now;    /* what it has */
	struct module_number refills, bytes, samples;
};

static uint64_t module_number(void)
{
	struct stat status;

	/* The kernel numbers the folders of sysfs as they are made. */
	return stat(MODULE, &status) ? 0 : (uint64_t)status.st_ino;
}

static bool read_module(struct missed *missed)
{
	return module_number_read(&missed->refills, &missed->now.refills) &&
	       module_number_read(&missed->bytes, &missed->now.bytes) &&
	       module_number_read(&missed->samples, &missed->now.samples);
}

static void lower(uint64_t *least, uint64_t all, uint64_t counted)
{
	uint64_t rest = all > counted ? all - counted : 0;

	if (rest < *least)
		*least = rest;
}

static void find_start(struct missed *missed, const struct feed_totals *totals)
{
	const struct hab_machine_totals *machine = &totals->machine;

	lower(&missed->start.refills, missed->now.refills,
	      machine->refills + totals->missed_refills);
	lower(&missed->start.bytes, missed->now.bytes, machine->bytes);
	lower(&missed->start.samples, missed->now.samples,
	      machine->sampled + machine->lost + machine->replaced);
}

static void remember(struct missed *missed)
{
	struct missed_counts all = missed_counts(missed);
	char line[LENGTH];
	int length;

	if (missed->fd < 0)
		return;
	memset(line, ' ', sizeof(line));
	length = snprintf(line, sizeof(line), FORMAT, missed->module, missed->now.refills,
			  missed->now.bytes, missed->now.samples, all.refills, all.bytes,
			  all.samples);
	if (length > 0 && length < LENGTH)
		line[length] = ' ';
	line[LENGTH - 1] = '\n';
	if (pwrite(missed->fd, line, sizeof(line), 0) == LENGTH)
		return;
	say("what this habd has read cannot be remembered: %s: the next one will count more as "
	    "missed",
	    strerror(errno));
	close(missed->fd);
	missed->fd = -1;
}

/* What the habd before left; of another life of the module it says nothing. */
static bool recall(struct missed *missed)
{
	struct missed_counts *seen = &missed->seen, *before = &missed->before;
	char line[LENGTH + 1] = "";
	uint64_t module;

	if (missed->fd >= 0 && pread(missed->fd, line, LENGTH, 0) == LENGTH &&
	    sscanf(line,
		   "module %" SCNu64 " seen %" SCNu64 " %" SCNu64 " %" SCNu64 " missed %" SCNu64
		   " %" SCNu64 " %" SCNu64,
		   &module, &seen->refills, &seen->bytes, &seen->samples, &before->refills,
		   &before->bytes, &before->samples) == 7 &&
	    module == missed->module && seen->refills <= missed->now.refills &&
	    seen->bytes <= missed->now.bytes && seen->samples <= missed->now.samples)
		return true;
	memset(seen, 0, sizeof(*seen));
	memset(before, 0, sizeof(*before));
	return false;
}

static void say_missed(const struct missed *missed, bool since_another)
{
	struct missed_counts all = missed_counts(missed);
	char human[32];

	all.refills -= missed->before.refills;
	all.bytes -= missed->before.bytes;
	all.samples -= missed->before.samples;
	human_bytes(all.bytes, human, sizeof(human));
	if (all.refills || all.samples)
		say("missed since %s: %" PRIu64 " refills (%s), and %" PRIu64
		    " samples that nobody read; the totals have them, profiles do not",
		    since_another ? "the last habd" : "the module was loaded", all.refills, human,
		    all.samples);
}

static void close_file(int fd)
{
	if (fd >= 0)
		close(fd);
}

void missed_free(struct missed *missed)
{
	if (!missed)
		return;
	close_file(missed->fd);
	close_file(missed->refills.fd);
	close_file(missed->bytes.fd);
	close_file(missed->samples.fd);
	free(missed);
}

struct missed *missed_new(const char *socket_path, const struct feed_totals *totals)
{
	struct missed *missed = xcalloc(1, sizeof(*missed));
	bool since_another;
	char *path;

	missed->fd = -1;
	missed->refills = (struct module_number){ MODULE_REFILLS, -1 };
	missed->bytes = (struct module_number){ MODULE_REFILL_BYTES, -1 };
	missed->samples = (struct module_number){ MODULE_SAMPLED, -1 };
	missed->module = module_number();
	if (!read_module(missed)) {
		missed_free(missed);
		return NULL;
	}
	if (asprintf(&path, "%s.seen", socket_path) >= 0) {
		missed->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
		if (missed->fd < 0)
			say("%s cannot be made: %s: the next habd will count more as missed", path,
			    strerror(errno));
		free(path);
	}
	since_another = recall(missed);
	memset(&missed->start, 0xff, sizeof(missed->start));
	find_start(missed, totals);
	say_missed(missed, since_another);
	remember(missed);
	return missed;
}

void missed_update(struct missed *missed, const struct feed_totals *totals)
{
	if (!missed || !read_module(missed))
		return;
	if (totals)
		find_start(missed, totals);
	remember(missed);
}

static uint64_t sum(uint64_t before, uint64_t start, uint64_t seen)
{
	return before + (start > seen ? start - seen : 0);
}

struct missed_counts missed_counts(const struct missed *missed)
{
	struct missed_counts all = { 0 };

	if (!missed)
		return all;
	all.refills = sum(missed->before.refills, missed->start.refills, missed->seen.refills);
	all.bytes = sum(missed->before.bytes, missed->start.bytes, missed->seen.bytes);
	all.samples = sum(missed->before.samples, missed->start.samples, missed->seen.samples);
	return all;
}
