// SPDX-License-Identifier: GPL-2.0-only
/*
 * The feed of hosts without the module: attaches a BPF program to the static probes of libhab, in
 * all processes that use it, and rotates the windows of its throttler.
 *
 * A window lasts at least 200 ms, and at least the time of one sample: a
 * window without quota would keep no sample. Its quota is the rate times the length of the previous
 * window, so no second has more samples than the rate.
 * The next window is filled in beside the current one and becomes
 * current by one store. An event that is under way may still count in the window before, so a
 * window's end is reported one rotation later.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/throttle/interval.h"
#include "core/throttle/window.h"
#include "daemon/feeds/bpf_reader.h"
#include "daemon/feeds/libraries.h"
#include "daemon/shared/kinds.h"
#include "daemon/shared/module_files.h"
#include "daemon/shared/typed_rate.h"
#include "hab_usdt.skel.h"

#define SECOND_NS	1000000000ull
#define WINDOW_NS	200000000ull
#define AVERAGE_WINDOWS 8

struct probe_feed {
	struct bpf_reader reader; /* first */
	struct hab_usdt_bpf *skeleton;
	struct bpf_link *links[LIBRARIES_MAX][HAB_EVENT_KINDS];
	uint64_t rate;
	uint64_t window_ns;
	uint64_t rotated_ns;
	double owed;			/* quota of the time that has passed */
	double average;			/* events of a window */
	struct hab_interval_page *page; /* NULL: it could not be made */
};

static volatile struct hab_probe_window *window_at(const struct probe_feed *feed, uint32_t number)
{
	return &feed->skeleton->bss->windows[number % HAB_PROBE_WINDOWS];
}

/* No event counts in the window any more. */
static void end_window(struct probe_feed *feed, const volatile struct hab_probe_window *window)
{
	struct hab_record_window record = {
		.head.type = HAB_RECORD_WINDOW,
		.head.size = sizeof(record),
		.head.time_ns = clock_monotonic_ns(),
		.event.window = window->number,
		.event.quota = window->quota,
	};

	if (!window->number)
		return;
	record.event.candidates =
		hab_window_candidates(window->seed, window->interval, window->measured);
	bpf_reader_take(&feed->reader, &record, sizeof(record));
}

/* With more candidates than quota on the average, few windows have too few. */
static uint32_t interval_for(const struct probe_feed *feed, uint32_t quota)
{
	double interval = feed->average / (1.5 * quota + 8);

	if (interval < 1)
		return 1;
	return interval < UINT32_MAX ? (uint32_t)interval : UINT32_MAX;
}

/*
 * The file with the number of samples that each process may keep. Processes that have mapped it go
 * on with it when habd starts again: so it stays, and is never made smaller.
 */
static struct hab_interval_page *map_page(void)
{
	const char *path = secure_getenv("HAB_SAMPLING");
	struct hab_interval_page *page = MAP_FAILED;
	struct stat status;
	int fd;

	path = path ? path : HAB_INTERVAL_PAGE_PATH;
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
	/* Whatever the umask is: other users' processes read it. */
	if (fd >= 0 && !fstat(fd, &status) && S_ISREG(status.st_mode) && !fchmod(fd, 0644) &&
	    (status.st_size >= HAB_INTERVAL_PAGE_BYTES || !ftruncate(fd, HAB_INTERVAL_PAGE_BYTES)))
		page = mmap(NULL, HAB_INTERVAL_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
			    0);
	if (page == MAP_FAILED) {
		say("%s cannot be made: %s: processes report as if each were alone", path,
		    strerror(errno));
		page = NULL;
	} else {
		page->magic = HAB_INTERVAL_PAGE_MAGIC;
	}
	if (fd >= 0)
		close(fd);
	return page;
}

/* 0: processes use the default. */
static void show_share(struct probe_feed *feed, uint32_t processes)
{
	double share = (double)feed->rate * HAB_INTERVAL_WINDOW_NS / SECOND_NS *
		       (1 << HAB_SHARE_SHIFT) / (processes ? processes : 1);

	if (feed->page)
		__atomic_store_n(&feed->page->share,
				 share < 1	    ? 1 :
				 share < UINT32_MAX ? (uint32_t)share :
						      UINT32_MAX,
				 __ATOMIC_RELAXED);
}

/* The next window gets the quota of @passed_ns. */
static void rotate(struct probe_feed *feed, uint64_t passed_ns)
{
	uint32_t number = feed->skeleton->bss->current + 1;
	volatile struct hab_probe_window *before = window_at(feed, number - 1);
	volatile struct hab_probe_window *next = window_at(feed, number);

	/* A long pause of habd gives no more quota than one second. */
	if (passed_ns > SECOND_NS)
		passed_ns = feed->window_ns > SECOND_NS ? feed->window_ns : SECOND_NS;
	if (before->number)
		feed->average +=
			((double)before->measured - feed->average) /
			(before->number < AVERAGE_WINDOWS ? before->number : AVERAGE_WINDOWS);
	feed->owed += (double)feed->rate * (double)passed_ns / SECOND_NS;
	next->number = before->number + 1;
	next->seed = hab_window_hash(hash_seed, next->number);
	next->quota = feed->rate && feed->owed < 1 ? 1 : (uint32_t)feed->owed;
	next->window_ms = (uint32_t)(feed->window_ns / 1000000);
	next->interval = interval_for(feed, next->quota);
	next->measured = 0;
	next->processes = 0;
	show_share(feed, before->processes);
	feed->owed -= next->quota;
	__atomic_store_n(&feed->skeleton->bss->current, number, __ATOMIC_RELEASE);
	feed->rotated_ns = clock_monotonic_ns();
	end_window(feed, window_at(feed, number - 2));
}

static int feed_poll(struct feed *base, int timeout_ms)
{
	struct probe_feed *feed = (struct probe_feed *)base;
	uint64_t passed = clock_monotonic_ns() - feed->rotated_ns;
	uint64_t window = feed->window_ns;
	int left = passed < window ? (int)((window - passed) / 1000000) + 1 : 0;
	int error = bpf_reader_poll(base, left < timeout_ms ? left : timeout_ms);

	passed = clock_monotonic_ns() - feed->rotated_ns;
	if (passed >= window)
		rotate(feed, passed);
	return error;
}

static void feed_close(struct feed *base)
{
	struct probe_feed *feed = (struct probe_feed *)base;
	unsigned int i, kind;

	for (i = 0; i < LIBRARIES_MAX; i++)
		for (kind = 0; kind < HAB_EVENT_KINDS; kind++)
			bpf_link__destroy(feed->links[i][kind]);
	bpf_reader_end(&feed->reader);
	if (feed->page) {
		feed->page->share = 0;
		munmap(feed->page, HAB_INTERVAL_PAGE_BYTES);
	}
	hab_usdt_bpf__destroy(feed->skeleton);
	free(feed);
}

static const struct feed_ops probe_ops = {
	.name = "probes",
	.poll = feed_poll,
	.now_ns = bpf_reader_now_ns,
	.read = bpf_reader_read,
	.remove = bpf_reader_remove,
	.close = feed_close,
};

static bool attach_library(struct probe_feed *feed, struct bpf_link **links, const char *path)
{
	unsigned int kind;

	for (kind = 0; kind < HAB_EVENT_KINDS; kind++) {
		if (!bpf_reader_loads(&feed->reader, kind))
			continue;
		links[kind] = bpf_program__attach_usdt(feed->reader.programs[kind], -1, path, "hab",
						       kind_name(kind), NULL);
		if (links[kind])
			continue;
		say("%s: its probe hab:%s cannot be followed (%s): it must be a libhab that was "
		    "built with sys/sdt.h, or a program with such a libhab.a in it; name others "
		    "with --library; libbpf's last messages:",
		    path, kind_name(kind), strerror(errno));
		bpf_reader_say_log();
		return false;
	}
	return true;
}

/* 0, or an exit status. */
static int start(struct probe_feed *feed, const struct libraries *libraries)
{
	char *about = feed->reader.feed.about;
	const size_t room = sizeof(feed->reader.feed.about);
	unsigned int i;
	size_t length;
	int code;

	feed->skeleton = hab_usdt_bpf__open();
	if (!feed->skeleton)
		return bpf_reader_refuse(&feed->reader, "opened", -errno);
	feed->skeleton->rodata->follows_refills =
		bpf_reader_follows(&feed->reader, HAB_EVENT_REFILL);
	code = bpf_reader_load(&feed->reader, feed->skeleton->skeleton);
	if (code)
		return code;
	feed->reader.slots = &feed->skeleton->bss->process_slots;
	feed->page = map_page();
	rotate(feed, feed->window_ns);
	snprintf(about, room, "static probes, at most %llu samples/s, of",
		 (unsigned long long)feed->rate);
	for (i = 0; i < libraries->nr; i++) {
		if (!attach_library(feed, feed->links[i], libraries->paths[i]))
			return EXIT_BPF;
		length = strlen(about);
		snprintf(about + length, room - length, " %s", libraries->paths[i]);
	}
	return 0;
}

int feed_check_probes(struct libraries *libraries)
{
	struct module_state state;

	module_state_read(&state);
	if (!state.kernel_btf) {
		say("the kernel has no BTF (/sys/kernel/btf/vmlinux cannot be read): boot a "
		    "kernel built with CONFIG_DEBUG_INFO_BTF=y");
		return EXIT_BTF;
	}
	if (libraries->nr || libraries_find(libraries))
		return 0;
	say("no libhab.so.0 was found in the usual folders to follow its static probes: name "
	    "it, or a program with libhab.a in it, with --library, or load the module "
	    "(`modprobe hab`)");
	return EXIT_MODULE;
}

struct feed *feed_open_probes(const struct feed_sink *sink, unsigned int kinds,
			      const struct libraries *libraries, const char *rate, int *code)
{
	struct probe_feed *feed = xcalloc(1, sizeof(*feed));

	if (!rate_per_second(rate, &feed->rate))
		feed->rate = hab_rate_default((u32)sysconf(_SC_NPROCESSORS_ONLN));
	feed->window_ns = WINDOW_NS;
	if (feed->rate && SECOND_NS / feed->rate > WINDOW_NS)
		feed->window_ns = SECOND_NS / feed->rate;
	bpf_reader_begin(&feed->reader, &probe_ops, sink, kinds,
			 "following static probes needs Linux 5.15 or later");
	*code = start(feed, libraries);
	if (!*code)
		return &feed->reader.feed;
	feed_close(&feed->reader.feed);
	return NULL;
}
