// SPDX-License-Identifier: GPL-2.0-only
/*
 * The records and totals of hosts without the module: attaches a BPF program to the static
 * probes of libhab, in all processes that use it.
 *
 * The hard case is the rate, which no module limits. Windows of at least 200 ms, and of at
 * least the time of one sample, as one without a point would stand for nothing, are turned here,
 * between two looks at the ring: the next one is set up beside the current one and made current by
 * one store; an event that is just under way may still count in the one before, so its end is told
 * a turn later. A window has as many quota as the rate gives the time of the one before it, so no
 * second has more than its share, and what the program lets through is a little more than that, by
 * the average of events so far.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/feeds/bpf_log.h"
#include "daemon/habd/options.h"
#include "daemon/state/state.h"
#include "hab_usdt.skel.h"
#include "daemon/feeds/live.h"
#include "daemon/shared/module_files.h"
#include "daemon/shared/util.h"

#define SECOND_NS	1000000000ull
#define WINDOW_NS	200000000ull
#define DEFAULT_RATE	150
#define AVERAGE_WINDOWS 8
#define CERTAIN		(1ull << 32)

struct usdt_feed {
	struct live_feed live; /* first */
	struct hab_usdt_bpf *skeleton;
	struct bpf_link *links[LIBRARIES_MAX][HAB_EVENT_KINDS];
	uint64_t rate;
	uint64_t window_ns;
	uint64_t turned_ns;
	double owed;	/* quota, of the time that has passed */
	double average; /* events a window */
};

static const char *const probes[HAB_EVENT_KINDS] = {
	[HAB_EVENT_REFILL] = "refill",
	[HAB_EVENT_TLAB] = "tlab",
	[HAB_EVENT_OUTSIDE] = "outside",
	[HAB_EVENT_SAMPLE] = "sample",
};

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
		.event.quota = window->quota,
	};

	if (window->number)
		live_take(&feed->live, &record, sizeof(record));
}

/* More candidates than quota on the average, so that few windows have too few. */
static uint64_t threshold_for(const struct usdt_feed *feed, uint32_t quota)
{
	double wanted = 1.5 * quota + 8;

	if (feed->average <= wanted)
		return CERTAIN;
	return (uint64_t)(wanted / feed->average * (double)CERTAIN) + 1;
}

/* The window after the current one has so many nanoseconds' quota. */
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
	next->quota = feed->rate && feed->owed < 1 ? 1 : (uint32_t)feed->owed;
	next->window_ms = (uint32_t)(feed->window_ns / 1000000);
	next->threshold = threshold_for(feed, next->quota);
	next->measured = next->candidates = 0;
	feed->owed -= next->quota;
	__atomic_store_n(&feed->skeleton->bss->current, number, __ATOMIC_RELEASE);
	feed->turned_ns = clock_monotonic_ns();
	end_window(feed, window_at(feed, number - 2));
}

/* As live_poll, and turns the window. */
static int feed_poll(struct feed *base, int timeout_ms)
{
	struct usdt_feed *feed = (struct usdt_feed *)base;
	uint64_t passed = clock_monotonic_ns() - feed->turned_ns;
	uint64_t window = feed->window_ns;
	int left = passed < window ? (int)((window - passed) / 1000000) + 1 : 0;
	int err = live_poll(base, left < timeout_ms ? left : timeout_ms);

	passed = clock_monotonic_ns() - feed->turned_ns;
	if (passed >= window)
		turn(feed, passed);
	return err;
}

static void feed_close(struct feed *base)
{
	struct usdt_feed *feed = (struct usdt_feed *)base;
	unsigned int i, kind;

	for (i = 0; i < LIBRARIES_MAX; i++)
		for (kind = 0; kind < HAB_EVENT_KINDS; kind++)
			bpf_link__destroy(feed->links[i][kind]);
	live_end(&feed->live);
	hab_usdt_bpf__destroy(feed->skeleton);
	free(feed);
}

static const struct feed_ops usdt_ops = {
	.name = "probes",
	.poll = feed_poll,
	.now_ns = live_now_ns,
	.read = live_read,
	.forget = live_forget,
	.ended = live_ended,
	.close = feed_close,
};

/* 0, or what to exit with. */
static int attach(struct usdt_feed *feed, const struct libraries *libraries)
{
	unsigned int i, kind;
	size_t length;
	char *about = feed->live.feed.about;
	const size_t room = sizeof(feed->live.feed.about);

	snprintf(about, room, "static probes, at most %llu samples/s, of",
		 (unsigned long long)feed->rate);
	for (i = 0; i < libraries->nr; i++) {
		for (kind = 0; kind < HAB_EVENT_KINDS; kind++) {
			if (!live_follows(&feed->live, kind))
				continue;
			feed->links[i][kind] = bpf_program__attach_usdt(feed->live.programs[kind],
									-1, libraries->paths[i],
									"hab", probes[kind], NULL);
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
		snprintf(about + length, room - length, " %s", libraries->paths[i]);
	}
	return 0;
}

static int start(struct usdt_feed *feed)
{
	struct bpf_program **programs = feed->live.programs;
	const char *doing = "opened";
	int error = 0;

	feed->skeleton = hab_usdt_bpf__open();
	if (!feed->skeleton) {
		error = -errno;
		goto refused;
	}
	programs[HAB_EVENT_REFILL] = feed->skeleton->progs.on_refill;
	programs[HAB_EVENT_TLAB] = feed->skeleton->progs.on_tlab;
	programs[HAB_EVENT_OUTSIDE] = feed->skeleton->progs.on_outside;
	programs[HAB_EVENT_SAMPLE] = feed->skeleton->progs.on_sample;
	live_choose(&feed->live);
	doing = "loaded";
	error = hab_usdt_bpf__load(feed->skeleton);
	if (error)
		goto refused;
	doing = "read";
	error = live_begin(&feed->live, &feed->skeleton->bss->places, feed->skeleton->maps.totals,
			   feed->skeleton->maps.processes, feed->skeleton->maps.records);
	if (error)
		goto refused;
	turn(feed, feed->window_ns);
	return attach(feed, &feed->live.state->options->libraries);
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

struct feed *feed_open_usdt(struct state *state, int *code)
{
	struct usdt_feed *feed = xcalloc(1, sizeof(*feed));

	feed->live.feed.ops = &usdt_ops;
	feed->live.state = state;
	if (!rate_per_second(state->options->rate, &feed->rate))
		feed->rate = DEFAULT_RATE;
	feed->window_ns = WINDOW_NS;
	if (feed->rate && SECOND_NS / feed->rate > WINDOW_NS)
		feed->window_ns = SECOND_NS / feed->rate;
	bpf_log_keep();
	*code = start(feed);
	if (*code) {
		feed_close(&feed->live.feed);
		return NULL;
	}
	return &feed->live.feed;
}
