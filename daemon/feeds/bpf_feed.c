// SPDX-License-Identifier: GPL-2.0-only
/*
 * The records and totals of the running kernel: loads the BPF program, attaches
 * it and reads its ring buffer and maps.
 *
 * The hard case is everything that can be missing before that: privilege, the
 * module, type information. Each is looked for first, so that it is named in a
 * sentence, and libbpf's own report is only the last resort.
 *
 * Once attached, the privileges that only loading needs are dropped.
 */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bpf_counts.h"
#include "bpf_log.h"
#include "feed.h"
#include "habd.h"
#include "hab.skel.h"
#include "module_files.h"
#include "privilege.h"
#include "ring.h"
#include "util.h"

struct bpf_feed {
	struct feed feed;
	struct habd *habd;
	struct hab_bpf *skeleton;
	struct ring_buffer *ring;
	struct bpf_counts counts;
};

static int check_module(void)
{
	struct module_state state;
	struct problem problems[4];
	unsigned int count, i;

	module_state_read(&state);
	count = module_problems(&state, problems, ARRAY_SIZE(problems));
	for (i = 0; i < count; i++)
		say("%s: %s", problems[i].what, problems[i].next);
	if (!count)
		return 0;
	return state.device && !(state.kernel_btf && state.module_btf) ? EXIT_BTF : EXIT_MODULE;
}

static int take_record(void *context, void *data, size_t size)
{
	struct bpf_feed *feed = context;

	pthread_mutex_lock(&feed->habd->lock);
	ingest_record(feed->habd->ingest, data, size, clock_monotonic_ns());
	pthread_mutex_unlock(&feed->habd->lock);
	return 0;
}

static int feed_poll(struct feed *base, int timeout_ms)
{
	struct bpf_feed *feed = (struct bpf_feed *)base;

	return ring_read(feed->ring, timeout_ms);
}

static uint64_t feed_now(struct feed *base)
{
	(void)base;
	return clock_monotonic_ns();
}

static struct bpf_program *program_of(const struct bpf_feed *feed, unsigned int kind)
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

static void feed_read(struct feed *base, struct feed_totals *totals)
{
	struct bpf_feed *feed = (struct bpf_feed *)base;
	unsigned int kind;

	bpf_counts_read(&feed->counts, totals);
	totals->missed_events = 0;
	for (kind = 0; kind < HAB_EVENT_KINDS; kind++)
		totals->missed_events += bpf_missed(program_of(feed, kind));
	totals->missed_refills = bpf_missed(program_of(feed, HAB_EVENT_REFILL));
	totals->missed_stacks = bpf_missed(feed->skeleton->progs.on_stack);
	totals->missed_heaps = bpf_missed(feed->skeleton->progs.on_heap);
	totals->missed_windows = bpf_missed(feed->skeleton->progs.on_window);
}

static bool feed_forget(struct feed *base, uint32_t pid, struct hab_process_totals *last)
{
	struct bpf_feed *feed = (struct bpf_feed *)base;

	return bpf_counts_forget(&feed->counts, pid, last);
}

static bool feed_ended(struct feed *base)
{
	(void)base;
	return false;
}

static void feed_close(struct feed *base)
{
	struct bpf_feed *feed = (struct bpf_feed *)base;

	ring_buffer__free(feed->ring);
	hab_bpf__destroy(feed->skeleton);
	bpf_counts_end(&feed->counts);
	free(feed);
}

static const struct feed_ops bpf_ops = {
	.name = "kernel",
	.module = true,
	.poll = feed_poll,
	.now_ns = feed_now,
	.read = feed_read,
	.forget = feed_forget,
	.ended = feed_ended,
	.close = feed_close,
};

static int start(struct bpf_feed *feed)
{
	const char *doing = "opened";
	unsigned int kind;
	int error = 0;

	feed->skeleton = hab_bpf__open();
	if (!feed->skeleton) {
		error = -errno;
		goto refused;
	}
	/* Each of them makes programs enter the kernel more often; refills are there anyway. */
	for (kind = HAB_EVENT_REFILL + 1; kind < HAB_EVENT_KINDS; kind++)
		bpf_program__set_autoload(program_of(feed, kind),
					  feed->habd->options->events & 1u << kind);
	doing = "loaded";
	error = hab_bpf__load(feed->skeleton);
	if (error)
		goto refused;
	bpf_counts_begin(&feed->counts, &feed->skeleton->bss->places, feed->skeleton->maps.totals,
			 feed->skeleton->maps.processes);
	doing = "attached";
	error = hab_bpf__attach(feed->skeleton);
	if (error)
		goto refused;
	feed->ring = ring_buffer__new(bpf_map__fd(feed->skeleton->maps.records), take_record, feed,
				      NULL);
	if (!feed->ring) {
		doing = "read";
		error = -errno;
		goto refused;
	}
	return 0;
refused:
	say("the BPF program could not be %s (%s): module and habd must be from the same "
	    "release; --verbose shows the kernel's whole answer, its end is:",
	    doing, strerror(-error));
	bpf_log_show();
	return EXIT_BPF;
}

int feed_check_bpf(void)
{
	return privilege_check(true) ? check_module() : EXIT_PRIVILEGE;
}

struct feed *feed_open_bpf(struct habd *habd, int *code)
{
	struct bpf_feed *feed = xcalloc(1, sizeof(*feed));

	feed->feed.ops = &bpf_ops;
	feed->habd = habd;
	bpf_log_keep();
	*code = start(feed);
	if (*code) {
		feed_close(&feed->feed);
		return NULL;
	}
	privilege_drop();
	return &feed->feed;
}
