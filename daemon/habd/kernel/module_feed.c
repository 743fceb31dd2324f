// SPDX-License-Identifier: GPL-2.0-only
/*
 * The feed of the module: loads the BPF program, attaches it to the module's tracepoints, and reads
 * its ring buffer and its totals.
 *
 * Much can be missing: the module, its or the kernel's type information. Each is looked for first,
 * so that a sentence names it; libbpf's own messages are shown only for what is left.
 */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "wire/owner.h"
#include "daemon/habd/kernel/bpf_log.h"
#include "daemon/collect/feed.h"
#include "daemon/shared/module_files.h"
#include "hab.skel.h"

/* Of a poll: libbpf goes on as long as records come, and users can see to it that they do. */
#define POLL_RECORDS 4096

struct module_feed {
	struct feed feed; /* first: a pointer to it is one to the whole */
	struct hab_bpf *skeleton;
	struct feed_sink sink;
	unsigned int kinds; /* that are followed, a bit each */
	struct bpf_program *programs[HAB_EVENT_KINDS];
	struct ring_buffer *ring;
	unsigned int polled; /* records of this poll */
	int nr_cpus;
	struct hab_machine_totals *per_cpu;
};

/* An exit status. */
static int refuse(const char *done, int error)
{
	say("the BPF program could not be %s (%s): module and habd must be from the same release; "
	    "--verbose shows the kernel's whole answer, its end is:",
	    done, strerror(-error));
	bpf_log_say();
	return EXIT_BPF;
}

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

/* A negative value ends the poll. */
static int take(void *context, void *record, size_t size)
{
	struct module_feed *feed = context;

	feed->sink.take(feed->sink.context, record, size);
	return ++feed->polled < POLL_RECORDS ? 0 : -ECANCELED;
}

/*
 * A poll returns at once only for a few records, see wake_flags() in bpf/counts.h: waking habd for
 * each would cost the machine more than reading it.
 */
static int feed_poll(struct feed *base, int timeout_ms)
{
	struct module_feed *feed = (struct module_feed *)base;
	int result;

	feed->polled = 0;
	result = ring_buffer__poll(feed->ring, timeout_ms);
	/* Records that woke no reader are not seen by the poll. */
	if (!result)
		result = ring_buffer__consume(feed->ring);
	if (result >= 0 || result == -EINTR || result == -ECANCELED)
		return 0;
	say("reading the ring buffer failed: %s", strerror(-result));
	return result;
}

static void read_machine(const struct module_feed *feed, struct hab_machine_totals *sum)
{
	uint32_t zero = 0;
	int cpu;

	memset(sum, 0, sizeof(*sum));
	if (bpf_map_lookup_elem(bpf_map__fd(feed->skeleton->maps.totals), &zero, feed->per_cpu))
		return;
	for (cpu = 0; cpu < feed->nr_cpus; cpu++)
		sums_add(sum, &feed->per_cpu[cpu], sizeof(*sum) / sizeof(__u64));
}

static void add_process(struct feed_totals *totals, uint32_t pid,
			const struct hab_process_totals *of_process)
{
	struct feed_process *process = feed_totals_add(totals);

	*process = (struct feed_process){ .pid = pid, .totals = *of_process };
	process->totals.uid = hab_owner_uid(of_process->owner, of_process->uid);
}

#define BATCH 256

static void read_map(int map, struct feed_totals *totals)
{
	struct hab_process_totals values[BATCH];
	uint32_t keys[BATCH], count, i;
	uint64_t position;
	void *from = NULL;
	int result;

	do {
		count = BATCH;
		result = bpf_map_lookup_batch(map, from, &position, keys, values, &count, NULL);
		/* ENOENT is the end, and comes together with the last entries. */
		if (result && errno != ENOENT)
			return;
		from = &position;
		for (i = 0; i < count; i++)
			add_process(totals, keys[i], &values[i]);
	} while (!result);
}

static void read_processes(const struct module_feed *feed, struct feed_totals *totals)
{
	const struct hab_process_slot *slot;
	unsigned int i;
	uint32_t pid;

	for (i = 0; i < HAB_PROCESS_SLOTS; i++) {
		slot = &feed->skeleton->bss->process_slots.slots[i];
		pid = __atomic_load_n(&slot->pid, __ATOMIC_RELAXED);
		if (pid)
			add_process(totals, pid, &slot->totals);
	}
	if (__atomic_load_n(&feed->skeleton->bss->process_slots.map_used, __ATOMIC_RELAXED))
		read_map(bpf_map__fd(feed->skeleton->maps.processes), totals);
}

/* Hits that the kernel dropped before the program ran. */
static uint64_t missed(const struct bpf_program *program)
{
	struct bpf_prog_info info = { 0 };
	uint32_t size = sizeof(info);

	if (!program || bpf_program__fd(program) < 0 ||
	    bpf_obj_get_info_by_fd(bpf_program__fd(program), &info, &size))
		return 0;
	return info.recursion_misses;
}

static void feed_read(struct feed *base, struct feed_totals *totals)
{
	const struct module_feed *feed = (struct module_feed *)base;
	unsigned int kind;

	/* The module reports the refills so far when these are read. */
	module_number_read(MODULE_REFILL_BYTES, &totals->of.module_bytes);
	module_number_read(MODULE_REFILLS, &totals->of.module_refills);
	module_number_read(MODULE_UNCOUNTED, &totals->of.module_uncounted);
	read_machine(feed, &totals->of.machine);
	read_processes(feed, totals);
	totals->of.missed_refills = missed(feed->skeleton->progs.on_refills);
	totals->of.missed_stacks = missed(feed->skeleton->progs.on_stack);
	totals->of.missed_heaps = missed(feed->skeleton->progs.on_heap);
	totals->of.missed_events = 0;
	for (kind = 0; kind < HAB_EVENT_KINDS; kind++)
		if (feed->kinds & 1u << kind)
			totals->of.missed_events += missed(feed->programs[kind]);
}

/* The process has ended: its totals do not change until the slot is free. */
static bool clear_slot(struct hab_process_slot *slot, uint32_t pid, struct hab_process_totals *last)
{
	if (slot->pid != pid)
		return false;
	*last = slot->totals;
	memset(&slot->totals, 0, sizeof(slot->totals));
	/* Pairs with the cmpxchg in add_process() of bpf/counts.h. */
	__atomic_store_n(&slot->pid, 0, __ATOMIC_RELEASE);
	return true;
}

static bool feed_remove(struct feed *base, uint32_t pid, struct hab_process_totals *last)
{
	const struct module_feed *feed = (struct module_feed *)base;
	struct hab_process_slots *slots = &feed->skeleton->bss->process_slots;

	if (clear_slot(&slots->slots[pid % HAB_PROCESS_SLOTS], pid, last))
		return true;
	if (bpf_map_lookup_and_delete_elem(bpf_map__fd(feed->skeleton->maps.processes), &pid, last))
		return false;
	/* As add_to_map() of bpf/counts.h has counted it. */
	if (last->owner != HAB_OWNER_ROOT) {
		__atomic_fetch_sub(&slots->entries[last->owner % HAB_PROCESS_OWNERS], 1,
				   __ATOMIC_RELAXED);
		__atomic_fetch_sub(&slots->owners_entries, 1, __ATOMIC_RELAXED);
	}
	return true;
}

static void feed_close(struct feed *base)
{
	struct module_feed *feed = (struct module_feed *)base;

	ring_buffer__free(feed->ring);
	free(feed->per_cpu);
	hab_bpf__destroy(feed->skeleton);
	free(feed);
}

static const struct feed_ops module_ops = {
	.name = "module",
	.module = true,
	.poll = feed_poll,
	.read = feed_read,
	.remove = feed_remove,
	.close = feed_close,
};

/* A kind that is not followed has no program: each event costs whoever allocates. */
static void choose_programs(struct module_feed *feed)
{
	unsigned int kind;

	feed->programs[HAB_EVENT_REFILL] = feed->skeleton->progs.on_refill;
	feed->programs[HAB_EVENT_TLAB] = feed->skeleton->progs.on_tlab;
	feed->programs[HAB_EVENT_OUTSIDE] = feed->skeleton->progs.on_outside;
	feed->programs[HAB_EVENT_SAMPLE] = feed->skeleton->progs.on_sample;
	for (kind = 0; kind < HAB_EVENT_KINDS; kind++)
		bpf_program__set_autoload(feed->programs[kind], feed->kinds & 1u << kind);
}

/* 0, or an exit status. */
static int start(struct module_feed *feed)
{
	int error;

	feed->skeleton = hab_bpf__open();
	if (!feed->skeleton)
		return refuse("opened", -errno);
	choose_programs(feed);
	error = hab_bpf__load(feed->skeleton);
	if (error)
		return refuse("loaded", error);
	feed->ring = ring_buffer__new(bpf_map__fd(feed->skeleton->maps.records), take, feed, NULL);
	if (!feed->ring)
		return refuse("read", -errno);
	feed->feed.fd = ring_buffer__epoll_fd(feed->ring);
	error = hab_bpf__attach(feed->skeleton);
	return error ? refuse("attached", error) : 0;
}

struct feed *feed_open_module(const struct feed_sink *sink, unsigned int kinds, int *code)
{
	struct module_feed *feed = xcalloc(1, sizeof(*feed));

	feed->feed.ops = &module_ops;
	feed->feed.fd = -1;
	feed->sink = *sink;
	feed->kinds = kinds;
	feed->nr_cpus = libbpf_num_possible_cpus();
	if (feed->nr_cpus < 1)
		feed->nr_cpus = 1;
	feed->per_cpu = xcalloc((size_t)feed->nr_cpus, sizeof(*feed->per_cpu));
	bpf_log_begin();
	*code = start(feed);
	if (!*code)
		return &feed->feed;
	feed_close(&feed->feed);
	return NULL;
}
