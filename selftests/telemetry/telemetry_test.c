// SPDX-License-Identifier: GPL-2.0-only
/*
 * The BPF program against the module, without the daemon: exact totals, the
 * throttler's rate, and that no event goes uncounted.
 */
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
#include "bpf/records.h"
#include "hab.h"
#include "hab.skel.h"

#define SYSFS	    "/sys/class/misc/hab/"
#define MAX_SAMPLES 200000

/* One HAB_RECORD_SAMPLE. */
struct record {
	uint64_t window;
	uint64_t candidate;
	uint64_t sample_id;
	uint64_t bytes;
	uint64_t leaf; /* of the thread's stack, if it came */
	double probability;
	uint32_t slot;
	uint32_t pid;
};

struct seen {
	uint64_t samples;  /* that replace no other one */
	uint64_t replaced; /* by others */
	uint64_t windows;
	struct record *records;
	uint64_t nr_records;
	struct hab_window_event *ends;
	uint64_t stacks;
	uint64_t heaps;
	uint64_t joined; /* stacks whose sample came right before */
	uint64_t weight;
	uint64_t wanted_frame_first, wanted_frame_end;
	uint64_t stacks_with_frame;
	uint64_t *times;
};

/* The sample of a stack came a moment ago. */
static void note_leaf(struct seen *seen, const struct hab_record_stack *stack)
{
	uint64_t i;

	for (i = seen->nr_records; i && i + 100 > seen->nr_records; i--) {
		if (seen->records[i - 1].sample_id != stack->sample_id)
			continue;
		seen->records[i - 1].leaf = stack->frames[0];
		return;
	}
}

static int on_record(void *context, void *data, size_t size)
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
			};
		seen->weight += sample->weight;
		if (sample->candidate > sample->points) {
			seen->replaced++;
			return 0;
		}
		if (seen->samples < MAX_SAMPLES)
			seen->times[seen->samples] = head->time_ns;
		seen->samples++;
	} else if (head->type == HAB_RECORD_WINDOW) {
		if (seen->windows < MAX_SAMPLES)
			seen->ends[seen->windows++] = window->event;
	} else if (head->type == HAB_RECORD_STACK) {
		const struct hab_record_stack *stack = data;

		seen->stacks++;
		note_leaf(seen, stack);
		/* The leaf is the library's caller: its own frames are left out. */
		if (stack->nr_frames && stack->frames[0] >= seen->wanted_frame_first &&
		    stack->frames[0] < seen->wanted_frame_end)
			seen->stacks_with_frame++;
	} else if (head->type == HAB_RECORD_HEAP) {
		seen->heaps++;
	}
	return 0;
}

static uint64_t read_sysfs(const char *name)
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

static int write_file(const char *name, const char *value)
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

static int write_rate(const char *rate)
{
	return write_file("rate", rate);
}

static bool file_says(const char *name, const char *value)
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
	self->seen.ends = calloc(MAX_SAMPLES, sizeof(struct hab_window_event));
	self->skeleton = hab_bpf__open();
	ASSERT_NE(NULL, self->skeleton);
	/* Refills alone: events_test has the others. */
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

static int compare_records(const void *one, const void *two)
{
	const struct record *first = one, *second = two;

	if (first->window != second->window)
		return first->window < second->window ? -1 : 1;
	if (first->slot != second->slot)
		return first->slot < second->slot ? -1 : 1;
	return first->candidate < second->candidate ? -1 : first->candidate > second->candidate;
}

static const struct hab_window_event *end_of(const struct seen *seen, uint64_t window)
{
	uint64_t i;

	for (i = 0; i < seen->windows; i++)
		if (seen->ends[i].window == window)
			return &seen->ends[i];
	return NULL;
}

/*
 * Leaves only the last record of each slot, with its final probability. Return: how many
 * are of a window whose end was not told.
 */
static uint64_t finish_records(struct seen *seen)
{
	const struct hab_window_event *end;
	uint64_t i, count = 0, endless = 0;
	struct record *record;

	qsort(seen->records, seen->nr_records, sizeof(*seen->records), compare_records);
	for (i = 0; i < seen->nr_records; i++) {
		record = &seen->records[i];
		if (record->window && i + 1 < seen->nr_records &&
		    record[1].window == record->window && record[1].slot == record->slot)
			continue;
		end = end_of(seen, record->window);
		endless += record->window && !end;
		if (end && end->candidates > end->points)
			record->probability *= (double)end->points / end->candidates;
		seen->records[count++] = *record;
	}
	seen->nr_records = count;
	return endless;
}

static double estimate(const struct seen *seen)
{
	double sum = 0;
	uint64_t i;

	for (i = 0; i < seen->nr_records; i++)
		sum += seen->records[i].bytes / seen->records[i].probability;
	return sum;
}

static void machine_totals(struct _test_data_telemetry *self, struct hab_machine_totals *sum)
{
	int nr = libbpf_num_possible_cpus(), cpu;
	struct hab_machine_totals *values = calloc(nr, sizeof(*values));
	uint64_t *to = (uint64_t *)sum;
	uint32_t zero = 0;
	size_t i;

	memset(sum, 0, sizeof(*sum));
	bpf_map_lookup_elem(bpf_map__fd(self->skeleton->maps.totals), &zero, values);
	for (cpu = 0; cpu < nr; cpu++) {
		for (i = 0; i < sizeof(*sum) / sizeof(*to); i++)
			to[i] += ((uint64_t *)&values[cpu])[i];
	}
	free(values);
}

/* Hits that the kernel dropped before the program ran. */
static uint64_t missed(struct _test_data_telemetry *self)
{
	struct bpf_prog_info info = { 0 };
	uint32_t size = sizeof(info);

	bpf_obj_get_info_by_fd(bpf_program__fd(self->skeleton->progs.on_refill), &info, &size);
	return info.recursion_misses;
}

struct load {
	int threads;
	int seconds; /* or for so many chunks a thread, if 0 */
	int chunks;
	const char *levels;
};

static struct hab_heap *heap;
static volatile int stop;

/* Each take is a refill: the chunk is as large as the buffer. */
__attribute__((noinline)) static int refilling_function(size_t size)
{
	struct hab_chunk chunk;
	int err = hab_chunk_take(heap, size, &chunk);

	__asm__ volatile("" ::: "memory"); /* no tail call: it has to be in the stack */
	return err;
}

static void *refill_thread(void *argument)
{
	const struct load *load = argument;
	int n;

	for (n = 0; load->seconds ? !stop : n < load->chunks; n++) {
		if (refilling_function(1024))
			hab_heap_reset(heap);
	}
	return NULL;
}

/* Runs a load in this process; what the library counted comes back. */
static int run_load(const struct load *load, struct hab_heap_stats *stats)
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

TEST_F_TIMEOUT(telemetry, totals_equal_the_librarys_statistics_to_the_byte, 120)
{
	const struct load load = { .threads = 8, .chunks = 2000 };
	struct hab_process_totals process = { 0 };
	struct hab_machine_totals machine;
	struct hab_heap_stats stats;
	uint32_t pid = getpid();
	uint64_t refills, bytes;

	if (!self->skeleton)
		SKIP(return, "no /dev/hab: module hab is not loaded here");
	refills = read_sysfs("refills");
	bytes = read_sysfs("refill_bytes");
	ASSERT_EQ(0, run_load(&load, &stats));
	machine_totals(self, &machine);
	ASSERT_EQ(0,
		  bpf_map_lookup_elem(bpf_map__fd(self->skeleton->maps.processes), &pid, &process));
	EXPECT_EQ(16000, stats.refills);
	EXPECT_EQ(stats.refills, process.refills + missed(self));
	EXPECT_EQ(0, missed(self));
	EXPECT_EQ(stats.refill_bytes, process.bytes);
	EXPECT_EQ(stats.refill_bytes, machine.bytes);
	EXPECT_EQ(stats.refills, machine.refills);
	/* The module's own count holds whether or not somebody listens. */
	EXPECT_EQ(stats.refills, read_sysfs("refills") - refills);
	EXPECT_EQ(stats.refill_bytes, read_sysfs("refill_bytes") - bytes);
	EXPECT_EQ(stats.book_refill_bytes, stats.refill_bytes);
}

TEST_F_TIMEOUT(telemetry, every_event_is_sampled_throttled_or_lost, 120)
{
	const struct load load = { .threads = 8, .chunks = 3000 };
	struct hab_machine_totals machine;
	struct hab_heap_stats stats;
	uint64_t sampled, throttled;

	if (!self->skeleton)
		SKIP(return, "no /dev/hab: module hab is not loaded here");
	/* Nobody reads meanwhile and nothing is throttled: the ring must overflow. */
	ASSERT_EQ(0, write_rate("off"));
	sampled = read_sysfs("sampled");
	throttled = read_sysfs("throttled");
	ASSERT_EQ(0, run_load(&load, &stats));
	ring_buffer__consume(self->ring);
	machine_totals(self, &machine);
	TH_LOG("events %llu = sampled %llu + throttled %llu + lost %llu; records %lu, stacks lost %llu",
	       machine.events, machine.sampled, machine.throttled, machine.lost,
	       (long)self->seen.samples, machine.stacks_lost);
	EXPECT_EQ(stats.refills, machine.refills);
	EXPECT_EQ(machine.events, machine.sampled + machine.throttled + machine.lost);
	EXPECT_GT(machine.lost, 0);
	EXPECT_EQ(self->seen.samples, machine.sampled);
	/* The module's throttler knows nothing of the ring: kept is sampled or lost. */
	EXPECT_EQ(machine.sampled + machine.lost, read_sysfs("sampled") - sampled);
	EXPECT_EQ(machine.throttled, read_sysfs("throttled") - throttled);
}

static void *consume(void *argument)
{
	struct _test_data_telemetry *self = argument;

	while (!stop)
		ring_buffer__poll(self->ring, 50);
	return NULL;
}

/* Its end is told at most a window after the last event. */
static void wait_for_the_last_window(struct _test_data_telemetry *self)
{
	int i;

	for (i = 0; i < 20; i++)
		ring_buffer__poll(self->ring, 100);
}

TEST_F_TIMEOUT(telemetry, the_emitted_rate_stays_at_the_set_one_under_twenty_times_the_load, 120)
{
	const struct load load = { .threads = 8, .seconds = 6 };
	struct hab_machine_totals machine;
	struct hab_heap_stats stats;
	uint64_t first, second, worst = 0;
	pthread_t reader;

	if (!self->skeleton)
		SKIP(return, "no /dev/hab: module hab is not loaded here");
	ASSERT_EQ(0, write_rate("50"));
	stop = 0;
	pthread_create(&reader, NULL, consume, self);
	ASSERT_EQ(0, run_load(&load, &stats));
	pthread_join(reader, NULL);
	ring_buffer__consume(self->ring);
	machine_totals(self, &machine);
	/* Any second, wherever it begins: at most the rate and one second's debt. */
	for (first = 0, second = 0; second < self->seen.samples; second++) {
		while (self->seen.times[second] - self->seen.times[first] > 1000000000ull)
			first++;
		if (second - first + 1 > worst)
			worst = second - first + 1;
	}
	TH_LOG("events %llu in 6 s, sampled %llu, most in any second %lu, set rate 50",
	       machine.events, machine.sampled, (long)worst);
	EXPECT_GT(machine.events, 6 * 50 * 20);
	EXPECT_GT(machine.sampled, 100);
	EXPECT_LE(machine.sampled, 7 * 50);
	EXPECT_LE(worst, 2 * 50);
	EXPECT_EQ(0, machine.lost);
	EXPECT_EQ(machine.events, machine.sampled + machine.throttled);
}

TEST_F_TIMEOUT(telemetry, kept_samples_bring_the_threads_own_stack, 120)
{
	const struct load load = { .threads = 4, .chunks = 500 };
	struct hab_machine_totals machine;
	struct hab_heap_stats stats;

	if (!self->skeleton)
		SKIP(return, "no /dev/hab: module hab is not loaded here");
	ASSERT_EQ(0, write_rate("1000"));
	self->seen.wanted_frame_first = (uintptr_t)refilling_function;
	self->seen.wanted_frame_end = (uintptr_t)refilling_function + 128;
	ASSERT_EQ(0, run_load(&load, &stats));
	ring_buffer__consume(self->ring);
	machine_totals(self, &machine);
	EXPECT_GT(self->seen.samples, 0);
	EXPECT_EQ(self->seen.samples, machine.sampled);
	EXPECT_EQ(self->seen.replaced, machine.replaced);
	EXPECT_EQ(self->seen.samples + self->seen.replaced,
		  self->seen.stacks + machine.stacks_lost);
	EXPECT_EQ(self->seen.stacks, self->seen.stacks_with_frame);
	EXPECT_EQ(1, self->seen.heaps);
}

TEST_F_TIMEOUT(telemetry, weights_add_up_to_what_the_threads_allocated, 120)
{
	const struct load load = { .threads = 1, .seconds = 3 };
	struct hab_heap_stats stats;
	pthread_t reader;
	double sum;

	if (!self->skeleton)
		SKIP(return, "no /dev/hab: module hab is not loaded here");
	ASSERT_EQ(0, write_rate("500"));
	stop = 0;
	pthread_create(&reader, NULL, consume, self);
	ASSERT_EQ(0, run_load(&load, &stats));
	pthread_join(reader, NULL);
	ring_buffer__consume(self->ring);
	EXPECT_GT(self->seen.samples, 100);
	/* All but what came after the last sample, a window at the most. */
	EXPECT_LE(self->seen.weight, stats.refill_bytes);
	EXPECT_GT(self->seen.weight, stats.refill_bytes / 4 * 3);
	/* And what the samples stand for is the whole. */
	wait_for_the_last_window(self);
	EXPECT_EQ(0, finish_records(&self->seen));
	EXPECT_EQ(self->seen.nr_records, self->seen.samples);
	sum = estimate(&self->seen);
	EXPECT_LE(sum, stats.refill_bytes * 1.01);
	EXPECT_GT(sum, stats.refill_bytes * 0.99);
	TH_LOG("refilled %lu, weights %lu, estimate %.0f of %lu samples", (long)stats.refill_bytes,
	       (long)self->seen.weight, sum, (long)self->seen.samples);
}

TEST_F_TIMEOUT(telemetry, a_stray_stack_is_ignored, 60)
{
	struct hab_heap_stats stats;
	const struct load load = { .threads = 1, .chunks = 5 };

	if (!self->skeleton)
		SKIP(return, "no /dev/hab: module hab is not loaded here");
	ASSERT_EQ(0, write_rate("0"));
	ASSERT_EQ(0, run_load(&load, &stats));
	ring_buffer__consume(self->ring);
	EXPECT_EQ(0, self->seen.samples);
	EXPECT_EQ(0, self->seen.stacks);
}

TEST_F_TIMEOUT(telemetry, the_rate_file_takes_numbers_periods_and_off_and_nothing_else, 60)
{
	if (!self->skeleton)
		SKIP(return, "no /dev/hab: module hab is not loaded here");
	EXPECT_EQ(0, write_rate("0"));
	EXPECT_EQ(0, read_sysfs("rate"));
	EXPECT_EQ(0, write_rate("1000000"));
	EXPECT_EQ(1000000, read_sysfs("rate"));
	EXPECT_EQ(-EINVAL, write_rate("1000001"));
	EXPECT_EQ(-EINVAL, write_rate("fast"));
	EXPECT_EQ(-EINVAL, write_rate("-1"));
	EXPECT_EQ(-EINVAL, write_rate("5/y"));
	EXPECT_EQ(-EINVAL, write_rate("/s"));
	EXPECT_EQ(-EINVAL, write_rate("5 /s"));
	EXPECT_EQ(-EINVAL, write_rate("99999999999/s"));
	EXPECT_EQ(1000000, read_sysfs("rate"));
	EXPECT_EQ(0, write_rate("off\n"));
	EXPECT_TRUE(file_says("rate", "off\n"));
	EXPECT_EQ(0, write_rate("150/s"));
	EXPECT_TRUE(file_says("rate", "150/s\n"));
	EXPECT_EQ(0, write_rate("14/m\n"));
	EXPECT_TRUE(file_says("rate", "14/m\n"));
	EXPECT_EQ(0, write_rate("1000000/h"));
	EXPECT_TRUE(file_says("rate", "1000000/h\n"));
	EXPECT_EQ(0, write_rate("3/d"));
	EXPECT_TRUE(file_says("rate", "3/d\n"));
	EXPECT_EQ(0, write_file("share_by", "cgroup"));
	EXPECT_TRUE(file_says("share_by", "cgroup\n"));
	EXPECT_EQ(-EINVAL, write_file("share_by", "user"));
	EXPECT_EQ(0, write_file("share_by", "process"));
	EXPECT_TRUE(file_says("share_by", "process\n"));
}

TEST_HARNESS_MAIN
