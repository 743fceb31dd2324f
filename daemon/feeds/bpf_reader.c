// SPDX-License-Identifier: GPL-2.0-only
/* Reads the ring buffer and the maps of a BPF program. */
#include "daemon/feeds/bpf_reader.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/owner.h"
#include "daemon/shared/module_files.h"

#define LOG_LINES 8
#define LOG_WIDTH 400
/* Of a poll: libbpf goes on as long as records come, and users can see to it that they do. */
#define POLL_RECORDS 4096

static char log_lines[LOG_LINES][LOG_WIDTH];
static unsigned int log_count;

static int keep_message(enum libbpf_print_level level, const char *format, va_list list)
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

void bpf_reader_say_log(void)
{
	unsigned int i = log_count > LOG_LINES ? log_count - LOG_LINES : 0;

	for (; i < log_count; i++)
		say("  %s", log_lines[i % LOG_LINES]);
}

void bpf_reader_begin(struct bpf_reader *reader, const struct feed_ops *ops, const struct feed_sink *sink,
		      unsigned int kinds, const char *hint)
{
	reader->feed.ops = ops;
	reader->feed.fd = -1;
	reader->sink = *sink;
	reader->kinds = kinds;
	reader->hint = hint;
	reader->nr_cpus = libbpf_num_possible_cpus();
	if (reader->nr_cpus < 1)
		reader->nr_cpus = 1;
	reader->per_cpu = xcalloc((size_t)reader->nr_cpus, sizeof(*reader->per_cpu));
	libbpf_set_print(keep_message);
}

void bpf_reader_end(struct bpf_reader *reader)
{
	ring_buffer__free(reader->ring);
	free(reader->per_cpu);
}

bool bpf_reader_follows(const struct bpf_reader *reader, unsigned int kind)
{
	return reader->kinds & 1u << kind;
}

bool bpf_reader_loads(const struct bpf_reader *reader, unsigned int kind)
{
	return bpf_reader_follows(reader, kind) ||
	       (kind == HAB_EVENT_REFILL && !reader->feed.ops->module);
}

int bpf_reader_refuse(const struct bpf_reader *reader, const char *done, int error)
{
	say("the BPF program could not be %s (%s): %s; --verbose shows the kernel's whole answer, "
	    "its end is:",
	    done, strerror(-error), reader->hint);
	bpf_reader_say_log();
	return EXIT_BPF;
}

void bpf_reader_take(struct bpf_reader *reader, const void *record, size_t size)
{
	reader->sink.take(reader->sink.context, record, size);
}

/* A negative value ends the poll. */
static int take(void *context, void *record, size_t size)
{
	struct bpf_reader *reader = context;

	bpf_reader_take(reader, record, size);
	return ++reader->polled < POLL_RECORDS ? 0 : -ECANCELED;
}

int bpf_reader_load(struct bpf_reader *reader, struct bpf_object_skeleton *skeleton)
{
	static const char *const names[BPF_READER_PROGRAMS] = {
		[HAB_EVENT_REFILL] = "on_refill",    [HAB_EVENT_TLAB] = "on_tlab",
		[HAB_EVENT_OUTSIDE] = "on_outside",  [HAB_EVENT_SAMPLE] = "on_sample",
		[BPF_READER_STACK] = "on_stack",     [BPF_READER_HEAP] = "on_heap",
		[BPF_READER_REFILLS] = "on_refills",
	};
	struct bpf_object *object = *skeleton->obj;
	unsigned int i;
	int error;

	for (i = 0; i < BPF_READER_PROGRAMS; i++) {
		reader->programs[i] = bpf_object__find_program_by_name(object, names[i]);
		if (i < HAB_EVENT_KINDS)
			bpf_program__set_autoload(reader->programs[i], bpf_reader_loads(reader, i));
	}
	error = bpf_object__load_skeleton(skeleton);
	if (error)
		return bpf_reader_refuse(reader, "loaded", error);
	reader->totals_map = bpf_object__find_map_fd_by_name(object, "totals");
	reader->processes_map = bpf_object__find_map_fd_by_name(object, "processes");
	reader->ring = ring_buffer__new(bpf_object__find_map_fd_by_name(object, "records"), take,
					reader, NULL);
	if (!reader->ring)
		return bpf_reader_refuse(reader, "read", -errno);
	reader->feed.fd = ring_buffer__epoll_fd(reader->ring);
	return 0;
}

/*
 * A poll returns at once only for a few records, see wake_flags() in bpf/totals.h: waking habd for
 * each would cost the machine more than reading it.
 */
int bpf_reader_poll(struct feed *feed, int timeout_ms)
{
	struct bpf_reader *reader = (struct bpf_reader *)feed;
	int result;

	reader->polled = 0;
	result = ring_buffer__poll(reader->ring, timeout_ms);
	/* Records that woke no reader are not seen by the poll. */
	if (!result)
		result = ring_buffer__consume(reader->ring);
	if (result >= 0 || result == -EINTR || result == -ECANCELED)
		return 0;
	say("reading the ring buffer failed: %s", strerror(-result));
	return result;
}

uint64_t bpf_reader_now_ns(struct feed *feed)
{
	return clock_monotonic_ns();
}

static void read_machine(struct bpf_reader *reader, struct hab_machine_totals *sum)
{
	uint32_t zero = 0;
	int cpu;

	memset(sum, 0, sizeof(*sum));
	if (bpf_map_lookup_elem(reader->totals_map, &zero, reader->per_cpu))
		return;
	for (cpu = 0; cpu < reader->nr_cpus; cpu++)
		sums_add(sum, &reader->per_cpu[cpu], sizeof(*sum) / sizeof(__u64));
}

static void add_process(struct feed_totals *totals, uint32_t pid,
			const struct hab_process_totals *of_process)
{
	struct feed_process *process = feed_totals_add(totals);

	process->pid = pid;
	process->totals = *of_process;
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

static void read_processes(struct bpf_reader *reader, struct feed_totals *totals)
{
	const struct hab_process_slot *slot;
	unsigned int i;
	uint32_t pid;

	totals->nr_processes = 0;
	for (i = 0; i < HAB_PROCESS_SLOTS; i++) {
		slot = &reader->slots->slots[i];
		pid = __atomic_load_n(&slot->pid, __ATOMIC_RELAXED);
		if (pid)
			add_process(totals, pid, &slot->totals);
	}
	if (__atomic_load_n(&reader->slots->map_used, __ATOMIC_RELAXED))
		read_map(reader->processes_map, totals);
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

void bpf_reader_read(struct feed *feed, struct feed_totals *totals)
{
	struct bpf_reader *reader = (struct bpf_reader *)feed;
	unsigned int kind;
	uint64_t refills;

	/* The module reports the refills so far when this is read. */
	if (feed->ops->module)
		module_number_read(MODULE_REFILLS, &refills);
	read_machine(reader, &totals->of.machine);
	read_processes(reader, totals);
	totals->of.missed_refills =
		missed(reader->programs[feed->ops->module ? BPF_READER_REFILLS : HAB_EVENT_REFILL]);
	totals->of.missed_stacks = missed(reader->programs[BPF_READER_STACK]);
	totals->of.missed_heaps = missed(reader->programs[BPF_READER_HEAP]);
	totals->of.missed_events = 0;
	for (kind = 0; kind < HAB_EVENT_KINDS; kind++)
		if (bpf_reader_follows(reader, kind))
			totals->of.missed_events += missed(reader->programs[kind]);
}

/* The process has ended: its totals do not change until the slot is free. */
static bool clear_slot(struct hab_process_slot *slot, uint32_t pid, struct hab_process_totals *last)
{
	if (slot->pid != pid)
		return false;
	*last = slot->totals;
	memset(&slot->totals, 0, sizeof(slot->totals));
	/* Pairs with the cmpxchg in add_process() of bpf/totals.h. */
	__atomic_store_n(&slot->pid, 0, __ATOMIC_RELEASE);
	return true;
}

bool bpf_reader_remove(struct feed *feed, uint32_t pid, struct hab_process_totals *last)
{
	struct bpf_reader *reader = (struct bpf_reader *)feed;

	if (clear_slot(&reader->slots->slots[pid % HAB_PROCESS_SLOTS], pid, last))
		return true;
	if (bpf_map_lookup_and_delete_elem(reader->processes_map, &pid, last))
		return false;
	/* As add_to_map() of bpf/totals.h has counted it. */
	if (last->owner != HAB_OWNER_ROOT) {
		__atomic_fetch_sub(&reader->slots->entries[last->owner % HAB_PROCESS_OWNERS], 1,
				   __ATOMIC_RELAXED);
		__atomic_fetch_sub(&reader->slots->owners_entries, 1, __ATOMIC_RELAXED);
	}
	return true;
}
