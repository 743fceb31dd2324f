// SPDX-License-Identifier: GPL-2.0-only
/*
 * Replays allocation traces with many threads, and prints one line of CSV.
 *
 *	replay --allocator malloc|bump|hab [OPTIONS] TRACE...
 *
 * Columns: mallocs_per_second over the measured interval. peak_rss_bytes: the process's peak
 * resident memory in it, less what the replay itself had before the first allocation.
 * waste_percent: the share of memory that was not objects, each rounded up to 16 bytes, as all of
 * these allocators do, or to 8 with --align 8: for hab and bump, of the arena at their
 * collections; for malloc, of peak_rss_bytes when most objects were live. Then, for hab, the parts
 * of that share: unused in TLABs, in buffers, and in the heap (the remainder is rounding of chunks
 * to 64 bytes); and, not part of it, the rounding of objects. Empty if unknown. Times and counts
 * are of the measured interval.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "replay_options.h"
#include "replay_state.h"
#include "statistics.h"

#define LOOK_US 5000 /* between two readings of the live bytes */

static pthread_barrier_t gate;

struct measured {
	double mallocs_per_second;
	uint64_t allocated_bytes;
	uint64_t peak_rss;
	uint64_t peak_live;
};

static uint64_t sum_allocations(void)
{
	uint64_t sum = 0;
	int i;

	for (i = 0; i < replay.options.threads; i++)
		sum += __atomic_load_n(&replay.workers[i].allocations, __ATOMIC_RELAXED);
	return sum;
}

static uint64_t sum_live(void)
{
	uint64_t sum = 0;
	int i;

	for (i = 0; i < replay.options.threads; i++)
		sum += __atomic_load_n(&replay.workers[i].live_bytes, __ATOMIC_RELAXED);
	return sum;
}

/* A field of /proc/self/status, in bytes. */
static uint64_t status_bytes(const char *field)
{
	FILE *file = fopen("/proc/self/status", "r");
	size_t length = strlen(field);
	char line[256];
	uint64_t kib = 0;

	while (file && fgets(line, sizeof(line), file)) {
		if (!strncmp(line, field, length) && line[length] == ':')
			kib = strtoull(line + length + 1, NULL, 10);
	}
	if (file)
		fclose(file);
	return kib << 10;
}

/* Resets the kernel's peak; without the right to, the peak is of the whole run. */
static void forget_peak(void)
{
	FILE *file = fopen("/proc/self/clear_refs", "w");

	if (file) {
		fputs("5\n", file);
		fclose(file);
	}
}

static void *work(void *argument)
{
	struct replay_worker *worker = argument;

	pthread_barrier_wait(&gate);
	pthread_barrier_wait(&gate);
	replay.allocator->run(worker);
	return NULL;
}

/* Tables of addresses are touched here, so that they do not count as the allocator's memory. */
static void make_workers(void)
{
	size_t slots = 0, each, bytes;
	char *memory;
	int i;

	for (i = 0; i < replay.nr_traces; i++) {
		if (replay.traces[i].nr_slots > slots)
			slots = replay.traces[i].nr_slots;
	}
	each = slots * sizeof(void *) + sizeof(struct replay_worker);
	bytes = each * replay.options.threads;
	memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		replay_fail("no memory for the tables of %d threads", replay.options.threads);
	memset(memory, 0, bytes);
	replay.workers = (struct replay_worker *)memory;
	memory += replay.options.threads * sizeof(struct replay_worker);
	for (i = 0; i < replay.options.threads; i++) {
		replay.workers[i].index = i;
		replay.workers[i].slots = (void **)memory + i * slots;
		if (pthread_create(&replay.workers[i].thread, NULL, work, &replay.workers[i]))
			replay_fail("cannot start thread %d of %d", i + 1, replay.options.threads);
	}
}

/* The interval's clock stops before the threads do. */
static void measure(struct measured *measured)
{
	struct replay_waste before = { 0 }, after = { 0 };
	uint64_t base, allocations, live;
	double start, end;

	pthread_barrier_wait(&gate);
	base = status_bytes("VmRSS");
	pthread_barrier_wait(&gate);
	usleep(replay.options.warmup * 1e6);
	forget_peak();
	if (replay.allocator->interval)
		replay.allocator->interval();
	replay_add_objects(&before);
	allocations = sum_allocations();
	start = bench_now();
	do {
		usleep(LOOK_US);
		live = sum_live();
		if (live > measured->peak_live)
			measured->peak_live = live;
		end = bench_now();
	} while (end - start < replay.options.seconds);
	allocations = sum_allocations() - allocations;
	replay_add_objects(&after);
	measured->peak_rss = status_bytes("VmHWM");
	measured->peak_rss -= base < measured->peak_rss ? base : measured->peak_rss;
	measured->mallocs_per_second = allocations / (end - start);
	measured->allocated_bytes = after.requested - before.requested;
}

static void print_percent(uint64_t part, uint64_t whole)
{
	if (whole)
		printf(",%.3f", 100.0 * part / whole);
	else
		putchar(',');
}

static void print_line(const struct measured *measured, const struct replay_result *result)
{
	const struct replay_waste *waste = &result->waste;
	uint64_t whole = result->has_waste ? waste->consumed : measured->peak_rss;
	uint64_t objects = result->has_waste ? waste->objects : measured->peak_live;

	if (replay.options.header)
		puts("allocator,threads,mallocs_per_second,peak_rss_bytes,waste_percent,"
		     "tlab_unused_percent,buffer_unused_percent,heap_unused_percent,rounding_percent,"
		     "allocated_bytes,collections,foreign,chunks,restarts,tlab_refills");
	printf("%s,%d,%.0f,%lu",
	       replay.options.label ? replay.options.label : replay.allocator->name,
	       replay.options.threads, measured->mallocs_per_second, measured->peak_rss);
	print_percent(objects < whole ? whole - objects : 0, whole);
	print_percent(waste->tlab_unused, waste->consumed);
	print_percent(waste->buffer_unused, waste->consumed);
	print_percent(waste->heap_unused, waste->consumed);
	print_percent(waste->objects - waste->requested, waste->consumed);
	printf(",%lu,%lu,%lu,%lu,%lu,%lu\n", measured->allocated_bytes, result->collections,
	       result->foreign, result->chunks, result->restarts, result->tlab_refills);
}

static void load_traces(int nr, char **paths)
{
	int i;

	replay.traces = mmap(NULL, nr * sizeof(struct trace), PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (replay.traces == MAP_FAILED)
		replay_fail("no memory for %d traces", nr);
	for (i = 0; i < nr; i++) {
		if (trace_load(&replay.traces[i], paths[i]))
			exit(1);
	}
	replay.nr_traces = nr;
}

int main(int argc, char **argv)
{
	struct replay_result result = { 0 };
	struct measured measured = { 0 };
	int first = replay_parse_options(argc, argv);
	int i;

	load_traces(argc - first, argv + first);
	pthread_barrier_init(&gate, NULL, replay.options.threads + 1);
	if (replay.allocator->open)
		replay.allocator->open();
	make_workers();
	measure(&measured);
	__atomic_or_fetch(&replay.attention, REPLAY_STOP, __ATOMIC_RELAXED);
	for (i = 0; i < replay.options.threads; i++)
		pthread_join(replay.workers[i].thread, NULL);
	if (replay.allocator->result)
		replay.allocator->result(&result);
	print_line(&measured, &result);
	return 0;
}
