// SPDX-License-Identifier: GPL-2.0-only
/*
 * The records and totals of hosts without the module: attaches a BPF program to the static
 * probes of libhab, in all processes that use it.
 *
 * The hard case is the rate, which no module limits. Windows of at least 200 ms, and of at
 * least the time of one sample, as one without a point would stand for nothing, are turned here,
 * between two looks at the ring: the next one is set up beside the current one and made current by
 * one store; an event that is just under way may still count in the one before, so its end is told
 * a turn later. A window has as many points as the rate gives the time of the one before it, so no
 * second has more than its share, and what the program lets through is a little more than that, by
 * the average of events so far.
 */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bpf_counts.h"
#include "bpf_log.h"
#include "feed.h"
#include "habd.h"
#include "hab_usdt.skel.h"
#include "module_files.h"
#include "privilege.h"
#include "ring.h"
#include "util.h"

#define SECOND_NS	1000000000ull
#define WINDOW_NS	200000000ull
#define DEFAULT_RATE	150
#define AVERAGE_WINDOWS 8
#define CERTAIN		(1ull << 32)

struct usdt_feed {
	struct feed feed;
	struct habd *habd;
	struct hab_usdt_bpf *skeleton;
	struct ring_buffer *ring;
	struct bpf_counts counts;
	struct bpf_link *links[LIBRARIES_MAX][HAB_EVENT_KINDS];
	uint64_t rate;
	uint64_t window_ns;
	uint64_t turned_ns;
	double owed;	/* points, of the time that has passed */
	double average; /* events a window */
};

static const char *const probes[HAB_EVENT_KINDS] = {
	[HAB_EVENT_REFILL] = "refill",
	[HAB_EVENT_TLAB] = "tlab",
	[HAB_EVENT_OUTSIDE] = "outside",
	[HAB_EVENT_SAMPLE] = "sample",
};

static struct bpf_program *program_of(const struct usdt_feed *feed, unsigned int kind)
{
	switch (kind) {
	case HAB_EVENT_TLAB:
		return feed->skeleton->progs.on_tlab;
	case HAB_EVENT_OUTSIDE:
		return feed->skeleton->progs.on_outside;
	case HAB_EVENT_SAMPLE:
		return feed->skeleton->progs.on_sample;
	default:
		return feed->skeleton->progs.on_refill;
	}
}

static bool is_followed(const struct usdt_feed *feed, unsigned int kind)
{
	return kind == HAB_EVENT_REFILL || feed->habd->options->events & 1u << kind;
}

static int take_record(void *context, void *data, size_t size)
{
	struct usdt_feed *feed = context;

	pthread_mutex_lock(&feed->habd->lock);
	ingest_record(feed->habd->ingest, data, size, clock_monotonic_ns());
	pthread_mutex_unlock(&feed->habd->lock);
	return 0;
}

static volatile struct hab_usdt_window *window_at(const struct usdt_feed *feed, uint32_t number)
{
	return &feed->skeleton->bss->windows[number % HAB_USDT_WINDOWS];
}

/* No event counts in it any more. */
static void end_window(struct usdt_feed *feed, volatile struct hab_usdt_window *window)
{
	struct hab_record_window record = {
		.head.type = HAB_RECORD_WINDOW,
		.head.time_ns = clock_monotonic_ns(),
		.event.window = window->number,
		.event.candidates = window->candidates,
		.event.points = window->points,
	};

	if (window->number)
		take_record(feed, &record, sizeof(record));
}

/* More candidates than points on the average, so that few windows have too few. */
static uint64_t threshold_for(const struct usdt_feed *feed, uint32_t points)
{
	double wanted = 1.5 * points + 8;

	if (feed->average <= wanted)
		return CERTAIN;
	return (uint64_t)(wanted / feed->average * (double)CERTAIN) + 1;
}

/* The window after the current one has so many nanoseconds' points. */
static void turn(struct usdt_feed *feed, uint64_t passed_ns)
{
	uint32_t number = feed->skeleton->bss->current + 1;
	volatile struct hab_usdt_window *before = window_at(feed, number - 1);
	volatile struct hab_usdt_window *next = window_at(feed, number);

	/* Who slept long is not owed it all. */
	if (passed_ns > SECOND_NS)
		passed_ns = feed->window_ns > SECOND_NS ? feed->window_ns : SECOND_NS;
	if (before->number)
		feed->average +=
			((double)before->measured - feed->average) /
			(before->number < AVERAGE_WINDOWS ? before->number : AVERAGE_WINDOWS);
	feed->owed += (double)feed->rate * (double)passed_ns / SECOND_NS;
	next->number = before->number + 1;
	next->points = feed->rate && feed->owed < 1 ? 1 : (uint32_t)feed->owed;
	next->window_ms = (uint32_t)(feed->window_ns / 1000000);
	next->threshold = threshold_for(feed, next->points);
	next->measured = next->candidates = 0;
	feed->owed -= next->points;
	__atomic_store_n(&feed->skeleton->bss->current, number, __ATOMIC_RELEASE);
	feed->turned_ns = clock_monotonic_ns();
	end_window(feed, window_at(feed, number - 2));
}

static int feed_poll(struct feed *base, int timeout_ms)
{
	struct usdt_feed *feed = (struct usdt_feed *)base;
	uint64_t passed = clock_monotonic_ns() - feed->turned_ns;
	uint64_t window = feed->window_ns;
	int left = passed < window ? (int)((window - passed) / 1000000) + 1 : 0;
	int err = ring_read(feed->ring, left < timeout_ms ? left : timeout_ms);

	passed = clock_monotonic_ns() - feed->turned_ns;
	if (passed >= window)
		turn(feed, passed);
	return err;
}

static uint64_t feed_now(struct feed *base)
{
	(void)base;
	return clock_monotonic_ns();
}

static void feed_read(struct feed *base, struct feed_totals *totals)
{
	struct usdt_feed *feed = (struct usdt_feed *)base;
	unsigned int kind;

	bpf_counts_read(&feed->counts, totals);
	totals->missed_events = 0;
	for (kind = 0; kind < HAB_EVENT_KINDS; kind++)
		if (is_followed(feed, kind))
			totals->missed_events += bpf_missed(program_of(feed, kind));
}

static bool feed_forget(struct feed *base, uint32_t pid, struct hab_process_totals *last)
{
	struct usdt_feed *feed = (struct usdt_feed *)base;

	return bpf_counts_forget(&feed->counts, pid, last);
}

static bool feed_ended(struct feed *base)
{
	(void)base;
	return false;
}

static void feed_close(struct feed *base)
{
	struct usdt_feed *feed = (struct usdt_feed *)base;
	unsigned int i, kind;

	for (i = 0; i < LIBRARIES_MAX; i++)
		for (kind = 0; kind < HAB_EVENT_KINDS; kind++)
			bpf_link__destroy(feed->links[i][kind]);
	ring_buffer__free(feed->ring);
	hab_usdt_bpf__destroy(feed->skeleton);
	bpf_counts_end(&feed->counts);
	free(feed);
}

static const struct feed_ops usdt_ops = {
	.name = "probes",
	.poll = feed_poll,
	.now_ns = feed_now,
	.read = feed_read,
	.forget = feed_forget,
	.ended = feed_ended,
	.close = feed_close,
};

/* 0, or what to exit with. */
static int attach(struct usdt_feed *feed, const struct libraries *libraries)
{
	unsigned int i, kind;
	size_t length;
	char *about = feed->feed.about;

	snprintf(about, sizeof(feed->feed.about), "static probes, at most %llu samples/s, of",
		 (unsigned long long)feed->rate);
	for (i = 0; i < libraries->nr; i++) {
		for (kind = 0; kind < HAB_EVENT_KINDS; kind++) {
			if (!is_followed(feed, kind))
				continue;
			feed->links[i][kind] = bpf_program__attach_usdt(program_of(feed, kind), -1,
									libraries->paths[i], "hab",
									probes[kind], NULL);
			if (feed->links[i][kind])
				continue;
			say("%s: its probe hab:%s cannot be followed (%s): it must be a libhab "
			    "that was built with sys/sdt.h, or a program with such a libhab.a "
			    "in it; name others with --library; what libbpf says:",
			    libraries->paths[i], probes[kind], strerror(errno));
			bpf_log_show();
			return EXIT_BPF;
		}
		length = strlen(about);
		snprintf(about + length, sizeof(feed->feed.about) - length, " %s",
			 libraries->paths[i]);
	}
	return 0;
}

static int start(struct usdt_feed *feed)
{
	const char *doing = "opened";
	unsigned int kind;
	int error = 0;

	feed->skeleton = hab_usdt_bpf__open();
	if (!feed->skeleton) {
		error = -errno;
		goto refused;
	}
	for (kind = 0; kind < HAB_EVENT_KINDS; kind++)
		bpf_program__set_autoload(program_of(feed, kind), is_followed(feed, kind));
	doing = "loaded";
	error = hab_usdt_bpf__load(feed->skeleton);
	if (error)
		goto refused;
	bpf_counts_begin(&feed->counts, &feed->skeleton->bss->places, feed->skeleton->maps.totals,
			 feed->skeleton->maps.processes);
	feed->ring = ring_buffer__new(bpf_map__fd(feed->skeleton->maps.records), take_record, feed,
				      NULL);
	if (!feed->ring) {
		doing = "read";
		error = -errno;
		goto refused;
	}
	turn(feed, feed->window_ns);
	return attach(feed, &feed->habd->options->libraries);
refused:
	say("the BPF program for static probes could not be %s (%s): it needs Linux 5.15 or "
	    "later; --verbose shows the kernel's whole answer, its end is:",
	    doing, strerror(-error));
	bpf_log_show();
	return EXIT_BPF;
}

int feed_check_usdt(struct options *options)
{
	struct module_state state;

	if (!privilege_check(false))
		return EXIT_PRIVILEGE;
	module_state_read(&state);
	if (!state.kernel_btf) {
		say("the kernel has no BTF (/sys/kernel/btf/vmlinux cannot be read): boot a "
		    "kernel built with CONFIG_DEBUG_INFO_BTF=y");
		return EXIT_BTF;
	}
	if (options->libraries.nr || libraries_find(&options->libraries))
		return 0;
	say("no libhab.so.0 was found in the usual folders to follow its static probes: name "
	    "it, or a program with libhab.a in it, with --library, or load the module "
	    "(`modprobe hab`)");
	return EXIT_MODULE;
}

struct feed *feed_open_usdt(struct habd *habd, int *code)
{
	struct usdt_feed *feed = xcalloc(1, sizeof(*feed));

	feed->feed.ops = &usdt_ops;
	feed->habd = habd;
	if (!rate_per_second(habd->options->rate, &feed->rate))
		feed->rate = DEFAULT_RATE;
	feed->window_ns = WINDOW_NS;
	if (feed->rate && SECOND_NS / feed->rate > WINDOW_NS)
		feed->window_ns = SECOND_NS / feed->rate;
	bpf_log_keep();
	*code = start(feed);
	if (*code) {
		feed_close(&feed->feed);
		return NULL;
	}
	privilege_drop();
	return &feed->feed;
}
