/* SPDX-License-Identifier: GPL-2.0-only */
/* For tests of the BPF program without the daemon: its records, its totals, a load of refills. */
#ifndef HAB_TEST_TELEMETRY_H
#define HAB_TEST_TELEMETRY_H

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "wire/record.h"
#include "lib/hab.h"
#include "hab.skel.h"

#define SYSFS	    "/sys/class/misc/hab/"
#define MAX_SAMPLES 200000

/* One HAB_RECORD_SAMPLE. */
struct record {
	uint64_t window;
	uint64_t candidate;
	uint64_t sample_id;
	uint64_t bytes;
	uint64_t leaf; /* of the thread's stack, 0: none came */
	double probability;
	uint32_t slot;
	uint32_t pid;
	uint64_t owner;
};

struct seen {
	uint64_t samples;  /* that replace no other one */
	uint64_t replaced; /* samples */
	uint64_t windows;
	struct record *records;
	uint64_t nr_records;
	struct hab_record_window *ends;
	uint64_t stacks;
	uint64_t heaps;
	struct hab_record_heap heap; /* the last one */
	uint64_t weight;
	uint64_t wanted_frame_first, wanted_frame_end;
	uint64_t stacks_with_frame;
	uint64_t *times;
};

/* The sample of the stack is among the last ones. */
static inline void note_leaf(struct seen *seen, const struct hab_record_stack *stack)
{
	uint64_t i;

	for (i = seen->nr_records; i && i + 100 > seen->nr_records; i--) {
		if (seen->records[i - 1].sample_id != stack->sample_id)
			continue;
		seen->records[i - 1].leaf = stack->frames[0];
		return;
	}
}

static inline int on_record(void *context, void *data, size_t size)
{
	const struct hab_record_window *window = data;
	const struct hab_record_head *head = data;
	struct seen *seen = context;

	(void)size;
	if (head->type == HAB_RECORD_SAMPLE) {
		const struct hab_record_sample *sample = data;

		if (seen->nr_records < MAX_SAMPLES)
			seen->records[seen->nr_records++] = (struct record){
				.window = sample->window,
				.candidate = sample->candidate,
				.sample_id = sample->sample_id,
				.bytes = sample->bytes,
				.probability = sample->probability / 4294967296.0,
				.slot = sample->slot,
				.pid = head->pid,
				.owner = sample->owner,
			};
		seen->weight += sample->weight;
		if (HAB_REPLACES(sample->candidate, sample->quota)) {
			seen->replaced++;
			return 0;
		}
		if (seen->samples < MAX_SAMPLES)
			seen->times[seen->samples] = head->time_ns;
		seen->samples++;
	} else if (head->type == HAB_RECORD_WINDOW) {
		if (seen->windows < MAX_SAMPLES)
			seen->ends[seen->windows++] = *window;
	} else if (head->type == HAB_RECORD_STACK) {
		const struct hab_record_stack *stack = data;

		seen->stacks++;
		note_leaf(seen, stack);
		/* The leaf is the caller of the library. */
		if (stack->nr_frames && stack->frames[0] >= seen->wanted_frame_first &&
		    stack->frames[0] < seen->wanted_frame_end)
			seen->stacks_with_frame++;
	} else if (head->type == HAB_RECORD_HEAP) {
		seen->heaps++;
		seen->heap = *(const struct hab_record_heap *)data;
	}
	return 0;
}

static inline uint64_t read_sysfs(const char *name)
{
	char path[128];
	unsigned long long value = 0;
	FILE *file;

	snprintf(path, sizeof(path), SYSFS "%s", name);
	file = fopen(path, "r");
	if (!file || fscanf(file, "%llu", &value) != 1)
		value = ~0ull;
	if (file)
		fclose(file);
	return value;
}

static inline int write_file(const char *name, const char *value)
{
	char path[128];
	FILE *file;
	int err;

	snprintf(path, sizeof(path), SYSFS "%s", name);
	file = fopen(path, "w");
	if (!file)
		return -errno;
	fputs(value, file);
	err = fclose(file) ? -errno : 0;
	return err;
}

static inline int write_rate(const char *rate)
{
	return write_file("rate", rate);
}

static inline bool file_says(const char *name, const char *value)
{
	char path[128], line[64] = "";
	FILE *file;

	snprintf(path, sizeof(path), SYSFS "%s", name);
	file = fopen(path, "r");
	if (!file || !fgets(line, sizeof(line), file))
		line[0] = 0;
	if (file)
		fclose(file);
	return !strcmp(line, value);
}

FIXTURE(telemetry)
{
	struct hab_bpf *skeleton;
	struct ring_buffer *ring;
	struct seen seen;
};

FIXTURE_SETUP(telemetry)
{
	if (access("/dev/hab", F_OK))
		SKIP(return, "no /dev/hab: module hab is not loaded here");
	self->seen.times = calloc(MAX_SAMPLES, sizeof(uint64_t));
	self->seen.records = calloc(MAX_SAMPLES, sizeof(struct record));
	self->seen.ends = calloc(MAX_SAMPLES, sizeof(struct hab_record_window));
	self->skeleton = hab_bpf__open();
	ASSERT_NE(NULL, self->skeleton);
	/* Only refills: events_test has the other kinds. */
	bpf_program__set_autoload(self->skeleton->progs.on_tlab, false);
	bpf_program__set_autoload(self->skeleton->progs.on_outside, false);
	bpf_program__set_autoload(self->skeleton->progs.on_sample, false);
	ASSERT_EQ(0, hab_bpf__load(self->skeleton));
	ASSERT_EQ(0, hab_bpf__attach(self->skeleton));
	self->ring = ring_buffer__new(bpf_map__fd(self->skeleton->maps.records), on_record,
				      &self->seen, NULL);
	ASSERT_NE(NULL, self->ring);
	ASSERT_EQ(0, write_rate("150"));
}

FIXTURE_TEARDOWN(telemetry)
{
	write_rate("150");
	ring_buffer__free(self->ring);
	hab_bpf__destroy(self->skeleton);
	free(self->seen.times);
	free(self->seen.records);
	free(self->seen.ends);
}

static inline int compare_records(const void *one, const void *two)
{
	const struct record *first = one, *second = two;

	if (first->window != second->window)
		return first->window < second->window ? -1 : 1;
	if (first->slot != second->slot)
		return first->slot < second->slot ? -1 : 1;
	return first->candidate < second->candidate ? -1 : first->candidate > second->candidate;
}

static inline const struct hab_record_window *end_of(const struct seen *seen, uint64_t window)
{
	uint64_t i;

	for (i = 0; i < seen->windows; i++)
		if (seen->ends[i].window == window)
			return &seen->ends[i];
	return NULL;
}

/*
 * Leaves only the last record of each slot, with its final probability. Return: the number of
 * records of windows without an end.
 */
static inline uint64_t finish_records(struct seen *seen)
{
	const struct hab_record_window *end;
	uint64_t i, count = 0, without_end = 0;
	struct record *record;

	qsort(seen->records, seen->nr_records, sizeof(*seen->records), compare_records);
	for (i = 0; i < seen->nr_records; i++) {
		record = &seen->records[i];
		if (record->window && i + 1 < seen->nr_records &&
		    record[1].window == record->window && record[1].slot == record->slot)
			continue;
		end = end_of(seen, record->window);
		without_end += record->window && !end;
		if (end && end->candidates > end->quota)
			record->probability *= (double)end->quota / end->candidates;
		seen->records[count++] = *record;
	}
	seen->nr_records = count;
	return without_end;
}

static inline double estimate(const struct seen *seen)
{
	double sum = 0;
	uint64_t i;

	for (i = 0; i < seen->nr_records; i++)
		sum += seen->records[i].bytes / seen->records[i].probability;
	return sum;
}

static inline void machine_totals(struct _test_data_telemetry *self, struct hab_machine_totals *sum)
{
	int nr = libbpf_num_possible_cpus(), cpu;
	struct hab_machine_totals *values = calloc(nr, sizeof(*values));
	__u64 *to = (__u64 *)sum; /* the fields' own type: others may not alias it */
	uint32_t zero = 0;
	size_t i;

	memset(sum, 0, sizeof(*sum));
	bpf_map_lookup_elem(bpf_map__fd(self->skeleton->maps.totals), &zero, values);
	for (cpu = 0; cpu < nr; cpu++) {
		for (i = 0; i < sizeof(*sum) / sizeof(*to); i++)
			to[i] += ((__u64 *)&values[cpu])[i];
	}
	free(values);
}

/* The totals of a process; false: it had no event. */
static inline bool process_totals(struct _test_data_telemetry *self, uint32_t pid,
				  struct hab_process_totals *totals)
{
	const struct hab_process_slot *slot =
		&self->skeleton->bss->process_slots.slots[pid % HAB_PROCESS_SLOTS];

	if (slot->pid != pid)
		return !bpf_map_lookup_elem(bpf_map__fd(self->skeleton->maps.processes), &pid,
					    totals);
	*totals = slot->totals;
	return true;
}

/* Hits that the kernel dropped before the program ran. */
static inline uint64_t missed(struct _test_data_telemetry *self)
{
	struct bpf_prog_info info = { 0 };
	uint32_t size = sizeof(info);

	bpf_obj_get_info_by_fd(bpf_program__fd(self->skeleton->progs.on_refills), &info, &size);
	return info.recursion_misses;
}

struct load {
	int threads;
	int seconds; /* 0: until each thread has taken @chunks */
	int chunks;
	int burst; /* chunks between two pauses of a millisecond; 0: no pause */
	const char *levels;
};

static struct hab_heap *heap;
static volatile int stop;

/* Each take is a refill: the chunk is as large as the buffer. */
__attribute__((noinline)) static int refilling_function(size_t size)
{
	struct hab_chunk chunk;
	int err = hab_chunk_take(heap, size, &chunk);

	__asm__ volatile("" ::: "memory"); /* no tail call, so that it is in the stack */
	return err;
}

static inline void *refill_thread(void *argument)
{
	const struct load *load = argument;
	int n;

	for (n = 0; load->seconds ? !stop : n < load->chunks; n++) {
		if (refilling_function(1024))
			hab_heap_reset(heap);
		if (load->burst && n % load->burst == 0)
			usleep(1000);
	}
	return NULL;
}

/* Runs a load in this process; @stats: the library's statistics of it. */
static inline int run_load(const struct load *load, struct hab_heap_stats *stats)
{
	struct hab_heap_config config;
	pthread_t threads[64];
	int i, err;

	hab_heap_config_init(&config);
	config.arena_bytes = 64ul << 20;
	config.tlab_bytes = 1024;
	config.levels = load->levels ? load->levels : "clab=1K@cpu";
	config.flags = HAB_HEAP_DEVICE;
	config.name = "load";
	err = hab_heap_create(&heap, &config);
	if (err)
		return err;
	stop = 0;
	for (i = 0; i < load->threads; i++)
		pthread_create(&threads[i], NULL, refill_thread, (void *)load);
	if (load->seconds)
		sleep(load->seconds);
	stop = 1;
	for (i = 0; i < load->threads; i++)
		pthread_join(threads[i], NULL);
	err = hab_heap_stats(heap, stats);
	hab_heap_destroy(heap);
	return err;
}

static inline void *consume(void *argument)
{
	struct _test_data_telemetry *self = argument;

	/* As habd reads: most records do not end a poll. */
	while (!stop) {
		ring_buffer__poll(self->ring, 50);
		ring_buffer__consume(self->ring);
	}
	return NULL;
}

static inline void read_for(struct _test_data_telemetry *self, int seconds)
{
	time_t end = time(NULL) + seconds;

	while (time(NULL) <= end) {
		ring_buffer__poll(self->ring, 100);
		ring_buffer__consume(self->ring);
	}
}

/* The end of a window is reported at most a window after the last event. */
static inline void wait_for_the_last_window(struct _test_data_telemetry *self)
{
	read_for(self, 2);
}

#endif /* HAB_TEST_TELEMETRY_H */
