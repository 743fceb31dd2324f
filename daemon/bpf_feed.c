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
#include <sys/capability.h>
#include <unistd.h>

#include "feed.h"
#include "habd.h"
#include "hab.skel.h"
#include "module_files.h"
#include "util.h"

#define LOG_LINES 8
#define LOG_WIDTH 400

struct bpf_feed {
	struct feed feed;
	struct habd *habd;
	struct hab_bpf *skeleton;
	struct ring_buffer *ring;
	int nr_cpus;
	struct hab_machine_totals *per_cpu;
	bool batch; /* the kernel reads maps in batches */
};

/* The last lines libbpf said; the reason is in them. */
static char log_lines[LOG_LINES][LOG_WIDTH];
static unsigned int log_count;

static int keep_log(enum libbpf_print_level level, const char *format, va_list list)
{
	char message[8192], *line, *rest = message;

	if (level == LIBBPF_DEBUG)
		return 0;
	vsnprintf(message, sizeof(message), format, list);
	if (say_is_verbose()) {
		fputs(message, stderr);
		return 0;
	}
	while ((line = strsep(&rest, "\n")))
		if (*line)
			snprintf(log_lines[log_count++ % LOG_LINES], LOG_WIDTH, "%s", line);
	return 0;
}

static void show_log(void)
{
	unsigned int i = log_count > LOG_LINES ? log_count - LOG_LINES : 0;

	for (; i < log_count; i++)
		say("  %s", log_lines[i % LOG_LINES]);
}

static const struct {
	cap_value_t capability;
	const char *name;
	const char *what_for;
	bool needed; /* else only some processes cannot be looked into */
	bool keep;   /* needed while running, too */
} capabilities[] = {
	{ CAP_BPF, "CAP_BPF", "to load BPF programs and read their maps", true, true },
	{ CAP_PERFMON, "CAP_PERFMON", "to attach to tracepoints", true, true },
	{ CAP_SYS_ADMIN, "CAP_SYS_ADMIN", "to find the module's BTF; dropped after that", true,
	  false },
	{ CAP_SYS_PTRACE, "CAP_SYS_PTRACE", "to read other users' /proc/PID/maps", false, true },
	{ CAP_DAC_READ_SEARCH, "CAP_DAC_READ_SEARCH", "to read other users' programs", false,
	  true },
	{ CAP_CHECKPOINT_RESTORE, "CAP_CHECKPOINT_RESTORE",
	  "to open the files of other mount namespaces", false, true },
};

static bool has_capability(cap_t all, cap_value_t capability)
{
	cap_flag_value_t value = CAP_CLEAR;

	return !cap_get_flag(all, capability, CAP_EFFECTIVE, &value) && value == CAP_SET;
}

static bool check_privilege(void)
{
	cap_t all = cap_get_proc();
	bool good = true;
	unsigned int i;

	if (!all)
		return true;
	for (i = 0; i < ARRAY_SIZE(capabilities); i++) {
		if (has_capability(all, capabilities[i].capability))
			continue;
		if (capabilities[i].needed) {
			say("not enough privilege: %s is missing (%s)", capabilities[i].name,
			    capabilities[i].what_for);
			good = false;
		} else {
			say_verbose("%s is missing (%s): some stacks will have no names",
				    capabilities[i].name, capabilities[i].what_for);
		}
	}
	cap_free(all);
	if (!good)
		say("start it as root (`sudo habd`), or with `systemctl start habd`, whose "
		    "unit grants just these");
	return good;
}

static void drop_privilege(void)
{
	cap_t now = cap_get_proc(), less = cap_init();
	unsigned int i;

	if (!now || !less)
		goto end;
	for (i = 0; i < ARRAY_SIZE(capabilities); i++) {
		if (!capabilities[i].keep || !has_capability(now, capabilities[i].capability))
			continue;
		cap_set_flag(less, CAP_EFFECTIVE, 1, &capabilities[i].capability, CAP_SET);
		cap_set_flag(less, CAP_PERMITTED, 1, &capabilities[i].capability, CAP_SET);
	}
	if (cap_set_proc(less))
		say("could not drop privileges: %s; going on with them", strerror(errno));
end:
	cap_free(now);
	cap_free(less);
}

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
	int result = ring_buffer__poll(feed->ring, timeout_ms);

	if (result >= 0 || result == -EINTR)
		return 0;
	say("reading the ring buffer failed: %s", strerror(-result));
	return result;
}

static uint64_t feed_now(struct feed *base)
{
	(void)base;
	return clock_monotonic_ns();
}

static uint64_t missed(const struct bpf_program *program)
{
	struct bpf_prog_info info = { 0 };
	uint32_t size = sizeof(info);

	if (bpf_obj_get_info_by_fd(bpf_program__fd(program), &info, &size))
		return 0;
	return info.recursion_misses;
}

static void read_machine(struct bpf_feed *feed, struct hab_machine_totals *sum)
{
	/* The fields' own type: others may not alias it. */
	__u64 *to = (__u64 *)sum;
	const __u64 *from;
	uint32_t zero = 0;
	unsigned int i;
	int cpu;

	memset(sum, 0, sizeof(*sum));
	if (bpf_map_lookup_elem(bpf_map__fd(feed->skeleton->maps.totals), &zero, feed->per_cpu))
		return;
	for (cpu = 0; cpu < feed->nr_cpus; cpu++) {
		from = (const __u64 *)&feed->per_cpu[cpu];
		for (i = 0; i < sizeof(*sum) / sizeof(*to); i++)
			to[i] += from[i];
	}
}

#define BATCH 256

static bool read_batches(int map, struct feed_totals *totals)
{
	struct hab_process_totals values[BATCH];
	uint32_t keys[BATCH], count, i;
	uint64_t position;
	void *from = NULL;
	struct feed_process *row;
	int result;

	do {
		count = BATCH;
		result = bpf_map_lookup_batch(map, from, &position, keys, values, &count, NULL);
		/* ENOENT is the end; the last ones came with it. */
		if (result && errno != ENOENT)
			return false;
		from = &position;
		for (i = 0; i < count; i++) {
			row = feed_totals_row(totals);
			row->pid = keys[i];
			row->totals = values[i];
		}
	} while (!result);
	return true;
}

static void read_one_by_one(int map, struct feed_totals *totals)
{
	struct hab_process_totals value;
	uint32_t key, *before = NULL;
	struct feed_process *row;

	while (!bpf_map_get_next_key(map, before, &key)) {
		before = &key;
		if (bpf_map_lookup_elem(map, &key, &value))
			continue;
		row = feed_totals_row(totals);
		row->pid = key;
		row->totals = value;
	}
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
	int map = bpf_map__fd(feed->skeleton->maps.processes);

	read_machine(feed, &totals->machine);
	totals->missed_events = 0;
	for (kind = 0; kind < HAB_EVENT_KINDS; kind++)
		totals->missed_events += missed(program_of(feed, kind));
	totals->missed_stacks = missed(feed->skeleton->progs.on_stack);
	totals->missed_heaps = missed(feed->skeleton->progs.on_heap);
	totals->missed_windows = missed(feed->skeleton->progs.on_window);
	totals->nr_processes = 0;
	if (feed->batch && read_batches(map, totals))
		return;
	feed->batch = false;
	totals->nr_processes = 0;
	read_one_by_one(map, totals);
}

static bool feed_forget(struct feed *base, uint32_t pid, struct hab_process_totals *last)
{
	struct bpf_feed *feed = (struct bpf_feed *)base;
	int map = bpf_map__fd(feed->skeleton->maps.processes);

	if (!bpf_map_lookup_and_delete_elem(map, &pid, last))
		return true;
	/* Kernels before 5.14 cannot do both at once for a hash. Nothing adds: it has gone. */
	return errno != ENOENT && !bpf_map_lookup_elem(map, &pid, last) &&
	       !bpf_map_delete_elem(map, &pid);
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
	free(feed->per_cpu);
	free(feed);
}

static const struct feed_ops bpf_ops = {
	.name = "kernel",
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
	show_log();
	return EXIT_BPF;
}

int feed_check_bpf(void)
{
	return check_privilege() ? check_module() : EXIT_PRIVILEGE;
}

struct feed *feed_open_bpf(struct habd *habd, int *code)
{
	struct bpf_feed *feed = xcalloc(1, sizeof(*feed));

	feed->feed.ops = &bpf_ops;
	feed->habd = habd;
	feed->batch = true;
	feed->nr_cpus = libbpf_num_possible_cpus();
	if (feed->nr_cpus < 1)
		feed->nr_cpus = 1;
	feed->per_cpu = xcalloc((size_t)feed->nr_cpus, sizeof(*feed->per_cpu));
	libbpf_set_print(keep_log);
	*code = start(feed);
	if (*code) {
		feed_close(&feed->feed);
		return NULL;
	}
	drop_privilege();
	return &feed->feed;
}
