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
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/feeds/bpf_log.h"
#include "daemon/habd/options.h"
#include "daemon/state/state.h"
#include "hab.skel.h"
#include "daemon/feeds/live.h"
#include "daemon/shared/module_files.h"
#include "daemon/shared/util.h"

struct bpf_feed {
	struct live_feed live; /* first */
	struct hab_bpf *skeleton;
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

static void feed_read(struct feed *base, struct feed_totals *totals)
{
	struct bpf_feed *feed = (struct bpf_feed *)base;

	live_read(base, totals);
	totals->missed_refills = bpf_missed(feed->skeleton->progs.on_refill);
	totals->missed_stacks = bpf_missed(feed->skeleton->progs.on_stack);
	totals->missed_heaps = bpf_missed(feed->skeleton->progs.on_heap);
	totals->missed_windows = bpf_missed(feed->skeleton->progs.on_window);
}

static void feed_close(struct feed *base)
{
	struct bpf_feed *feed = (struct bpf_feed *)base;

	live_end(&feed->live);
	hab_bpf__destroy(feed->skeleton);
	free(feed);
}

static const struct feed_ops bpf_ops = {
	.name = "kernel",
	.module = true,
	.poll = live_poll,
	.now_ns = live_now_ns,
	.read = feed_read,
	.forget = live_forget,
	.ended = live_ended,
	.close = feed_close,
};

static int start(struct bpf_feed *feed)
{
	struct bpf_program **programs = feed->live.programs;
	const char *doing = "opened";
	int error = 0;

	feed->skeleton = hab_bpf__open();
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
	error = hab_bpf__load(feed->skeleton);
	if (error)
		goto refused;
	doing = "read";
	error = live_begin(&feed->live, &feed->skeleton->bss->places, feed->skeleton->maps.totals,
			   feed->skeleton->maps.processes, feed->skeleton->maps.records);
	if (error)
		goto refused;
	doing = "attached";
	error = hab_bpf__attach(feed->skeleton);
	if (error)
		goto refused;
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
	return check_module();
}

struct feed *feed_open_bpf(struct state *state, int *code)
{
	struct bpf_feed *feed = xcalloc(1, sizeof(*feed));

	feed->live.feed.ops = &bpf_ops;
	feed->live.state = state;
	bpf_log_keep();
	*code = start(feed);
	if (*code) {
		feed_close(&feed->live.feed);
		return NULL;
	}
	return &feed->live.feed;
}
