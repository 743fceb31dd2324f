// SPDX-License-Identifier: GPL-2.0-only
/*
 * Threads' affinity changes as fast as the kernel allows, and their memory is moved between NUMA
 * nodes: no chunk is foreign, none is handed out twice, no byte is lost. Runs with the module and
 * without.
 *
 * HAB_MOVES=N: changes of affinity in each layout. Without emulation there are tens of thousands in
 * a second.
 *
 * Threads are moved between reading the CPU number and the commit, too: delays in the sections
 * (inject.h) make it likely.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>

#include "churn.h"

#define ARENA	(32 * MiB)
#define MOVED	(8 * MiB) /* an arena whose pages move */
#define THREADS 4
#define MOVES	500

unsigned int hab_inject_1, hab_inject_2, hab_inject_3;

void hab_inject_before(void)
{
}

FIXTURE_TEARDOWN(churn)
{
	hab_inject_1 = 0;
	hab_inject_2 = 0;
	hab_inject_3 = 0;
}

struct crowd {
	struct hab_heap *heap;
	unsigned char *used;
	pid_t ids[THREADS];
	uint64_t overlaps;
	uint64_t bad;
	volatile int stop;
	pthread_t threads[THREADS];
};

/* Each granule once, and in each chunk its own address until the reset. */
static void *take_until_full(void *argument)
{
	struct crowd *crowd = argument;
	static int next;
	int index = __atomic_fetch_add(&next, 1, __ATOMIC_RELAXED) % THREADS;
	unsigned int seed = index + 1;
	struct hab_chunk chunk;
	uint64_t i, first;

	__atomic_store_n(&crowd->ids[index], gettid(), __ATOMIC_RELEASE);
	while (!crowd->stop && !hab_chunk_take(crowd->heap, 1 + rand_r(&seed) % 512, &chunk)) {
		first = ((char *)chunk.base - crowd->heap->arena) / HAB_GRANULE;
		for (i = first; i < first + chunk.size / HAB_GRANULE; i++) {
			if (__atomic_exchange_n(&crowd->used[i], 1, __ATOMIC_RELAXED))
				__atomic_add_fetch(&crowd->overlaps, 1, __ATOMIC_RELAXED);
		}
		*(uintptr_t *)chunk.base = (uintptr_t)chunk.base;
		if (*(uintptr_t *)chunk.base != (uintptr_t)chunk.base)
			__atomic_add_fetch(&crowd->bad, 1, __ATOMIC_RELAXED);
		/* The arena is to last as long as the moves do. */
		if (rand_r(&seed) % 16 == 0)
			sched_yield();
	}
	return NULL;
}

static void start_crowd(struct crowd *crowd)
{
	int i;

	memset(crowd->ids, 0, sizeof(crowd->ids));
	memset(crowd->used, 0, crowd->heap->arena_bytes / HAB_GRANULE);
	crowd->stop = 0;
	for (i = 0; i < THREADS; i++)
		pthread_create(&crowd->threads[i], NULL, take_until_full, crowd);
	for (i = 0; i < THREADS; i++) {
		while (!__atomic_load_n(&crowd->ids[i], __ATOMIC_ACQUIRE))
			usleep(100);
	}
}

static void end_crowd(struct crowd *crowd)
{
	int i;

	crowd->stop = 1;
	for (i = 0; i < THREADS; i++)
		pthread_join(crowd->threads[i], NULL);
}

static int make_crowd(struct crowd *crowd, const char *levels, uint32_t flags, size_t arena)
{
	memset(crowd, 0, sizeof(*crowd));
	crowd->heap = make_heap(levels, flags, arena);
	if (!crowd->heap)
		return -1;
	crowd->used = calloc(1, arena / HAB_GRANULE);
	return crowd->used ? 0 : -1;
}

static uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000ull + now.tv_nsec / 1000000;
}

TEST_F_TIMEOUT(churn, threads_whose_affinity_always_changes_get_no_foreign_chunk, 300)
{
	const char *wanted = getenv("HAB_MOVES");
	long moves = wanted ? atol(wanted) : MOVES, done = 0, i;
	struct hab_heap_stats stats;
	uint64_t taken = 0, start, ms = 0;
	struct crowd crowd;
	unsigned int dice = 7;
	int cpus[64], nr;

	if (!self->fit)
		SKIP(return, "%s", unfit(variant->flags));
	nr = usable_cpus(cpus, 64);
	ASSERT_EQ(0, make_crowd(&crowd, variant->levels, variant->flags, ARENA));
	hab_inject_2 = 50;
	hab_inject_3 = 50;
	while (done < moves) {
		/* A round is one arena; its threads end when it is full. */
		ASSERT_EQ(0, hab_heap_reset(crowd.heap));
		ASSERT_EQ(0, hab_heap_stats(crowd.heap, &stats));
		taken = stats.chunk_bytes;
		start_crowd(&crowd);
		start = now_ms();
		for (i = 0; i < 500; i++)
			done += !pin_thread(crowd.ids[rand_r(&dice) % THREADS],
					    cpus[rand_r(&dice) % nr]);
		ms += now_ms() - start;
		end_crowd(&crowd);
		ASSERT_EQ(0, hab_heap_stats(crowd.heap, &stats));
		stats.chunk_bytes -= taken;
		EXPECT_EQ(stats.arena_bytes, accounted(&stats));
	}
	TH_LOG("%s: affinity changed %ld times, %lu a second; chunks %lu, verified %lu, restarts %lu, foreign %lu",
	       variant->levels, done, (long)(done * 1000 / (ms ? ms : 1)), (long)stats.chunks,
	       (long)stats.verified, (long)stats.restarts, (long)stats.foreign);
	EXPECT_EQ(0, crowd.overlaps);
	EXPECT_EQ(0, crowd.bad);
	EXPECT_EQ(0, stats.foreign);
	EXPECT_EQ(!!(variant->flags & HAB_HEAP_VERIFY), stats.verified > 0);
	hab_heap_destroy(crowd.heap);
	free(crowd.used);
}

/* Memory that moves between nodes. */

#define BIND 2
#define MOVE (1 << 1)

static int nodes(void)
{
	int nr = 0;
	char path[64];

	do
		snprintf(path, sizeof(path), "/sys/devices/system/node/node%d", nr++);
	while (!access(path, F_OK));
	return nr - 1;
}

#define EACH  31 /* one page of so many */
#define PAGES (MOVED / 4096 / EACH)

/* Moves pages by each method; returns the number of pages that were moved, by their results. */
static long move_arena(const struct hab_heap *heap, int node)
{
	unsigned long here = 1ul << !node, there = 1ul << node;
	static void *pages[PAGES];
	static int targets[PAGES], status[PAGES];
	long moved = 0;
	size_t i;

	for (i = 0; i < PAGES; i++) {
		pages[i] = heap->arena + i * EACH * 4096;
		targets[i] = i % 2;
		status[i] = -1;
	}
	/* Each call waits for all CPUs, so there is one call for all pages. */
	syscall(SYS_move_pages, 0, PAGES, pages, targets, status, MOVE);
	for (i = 0; i < PAGES; i++)
		moved += status[i] == targets[i];
	syscall(SYS_migrate_pages, 0, 64, &here, &there);
	syscall(SYS_mbind, heap->arena, heap->arena_bytes / 2, BIND, &there, 64, MOVE);
	return moved;
}

/* Memory keeps its contents on any node. */
static uint64_t lost_marks(const struct crowd *crowd)
{
	const uintptr_t *place;
	uint64_t lost = 0;
	size_t offset;

	for (offset = 0; offset < crowd->heap->arena_bytes; offset += HAB_GRANULE) {
		place = (const uintptr_t *)(crowd->heap->arena + offset);
		/* The first granules of chunks contain their addresses, others zero. */
		lost += *place && *place != (uintptr_t)place;
	}
	return lost;
}

TEST_F_TIMEOUT(churn, an_arena_that_is_moved_between_nodes_keeps_its_contents, 300)
{
	struct hab_heap_stats stats;
	struct crowd crowd;
	long moved = 0;
	uint64_t taken;
	int round, i;

	if (!self->fit)
		SKIP(return, "%s", unfit(variant->flags));
	if (nodes() < 2)
		SKIP(return, "only one NUMA node here");
	ASSERT_EQ(0, make_crowd(&crowd, variant->levels, variant->flags, MOVED));
	for (round = 0; round < 2; round++) {
		ASSERT_EQ(0, hab_heap_reset(crowd.heap));
		ASSERT_EQ(0, hab_heap_stats(crowd.heap, &stats));
		taken = stats.chunk_bytes;
		start_crowd(&crowd);
		for (i = 0; i < 2; i++)
			moved += move_arena(crowd.heap, i % 2);
		end_crowd(&crowd);
		EXPECT_EQ(0, lost_marks(&crowd));
		ASSERT_EQ(0, hab_heap_stats(crowd.heap, &stats));
		stats.chunk_bytes -= taken;
		EXPECT_EQ(stats.arena_bytes, accounted(&stats));
	}
	TH_LOG("%s: %ld single pages moved, chunks %lu, foreign %lu", variant->levels, moved,
	       (long)stats.chunks, (long)stats.foreign);
	EXPECT_GT(moved, 0);
	EXPECT_EQ(0, crowd.overlaps);
	EXPECT_EQ(0, crowd.bad);
	EXPECT_EQ(0, stats.foreign);
	hab_heap_destroy(crowd.heap);
	free(crowd.used);
}

TEST_HARNESS_MAIN
