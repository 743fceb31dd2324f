// SPDX-License-Identifier: GPL-2.0-only
/*
 * The feed of the module: loads the BPF program and attaches it to the module's tracepoints.
 *
 * Much can be missing: the module, its or the kernel's type information. Each is looked for first,
 * so that a sentence names it; libbpf's own messages are shown only for what is left.
 */
#include <errno.h>
#include <stdlib.h>

#include "daemon/feeds/bpf_reader.h"
#include "daemon/shared/module_files.h"
#include "hab.skel.h"

struct module_feed {
	struct bpf_reader reader; /* first */
	struct hab_bpf *skeleton;
};

static void say_problem(void *has_problem, const char *what, const char *next)
{
	say("%s: %s", what, next);
	*(bool *)has_problem = true;
}

int feed_check_module(void)
{
	struct module_state state;
	bool has_problem = false;

	module_state_read(&state);
	module_problems(&state, say_problem, &has_problem);
	if (!has_problem)
		return 0;
	return state.device && !(state.kernel_btf && state.module_btf) ? EXIT_BTF : EXIT_MODULE;
}

static void feed_close(struct feed *base)
{
	struct module_feed *feed = (struct module_feed *)base;

	bpf_reader_end(&feed->reader);
	hab_bpf__destroy(feed->skeleton);
	free(feed);
}

static const struct feed_ops module_ops = {
	.name = "kernel",
	.module = true,
	.poll = bpf_reader_poll,
	.now_ns = bpf_reader_now_ns,
	.read = bpf_reader_read,
	.remove = bpf_reader_remove,
	.close = feed_close,
};

/* 0, or an exit status. */
static int start(struct module_feed *feed)
{
	int code, error;

	feed->skeleton = hab_bpf__open();
	if (!feed->skeleton)
		return bpf_reader_refuse(&feed->reader, "opened", -errno);
	code = bpf_reader_load(&feed->reader, feed->skeleton->skeleton);
	if (code)
		return code;
	feed->reader.slots = &feed->skeleton->bss->process_slots;
	error = hab_bpf__attach(feed->skeleton);
	return error ? bpf_reader_refuse(&feed->reader, "attached", error) : 0;
}

struct feed *feed_open_module(const struct feed_sink *sink, unsigned int kinds, int *code)
{
	struct module_feed *feed = xcalloc(1, sizeof(*feed));

	bpf_reader_begin(&feed->reader, &module_ops, sink, kinds,
			 "module and habd must be from the same release");
	*code = start(feed);
	if (!*code)
		return &feed->reader.feed;
	feed_close(&feed->reader.feed);
	return NULL;
}
