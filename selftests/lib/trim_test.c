// SPDX-License-Identifier: GPL-2.0-only
/*
 * Memory that goes back to the system: how much of the arena has memory is the kernel's answer
 * (mincore()), on the device where there is one. The library's clock is the test's: it goes on only
 * when it is turned.
 */
#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "lib/alloc/trim.h"
#include "lib/heap.h"
#include "selftests/lib/accounted.h"

#define MiB   (1ul << 20)
#define ARENA (128 * MiB)
#define BURST (40 * MiB)
#define PAGE  ((unsigned long)sysconf(_SC_PAGESIZE))

/* Pieces that no extent has, on each CPU. */
#define LITTLE (BURST / 8)

/* The system gives none unasked. */
static __attribute__((constructor)) void refuse_huge_pages(void)
{
	prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
}

static uint64_t turned_ns = 1ull << 40;

static void wait_seconds(double seconds)
{
	__atomic_add_fetch(&turned_ns, (uint64_t)(seconds * 1e9), __ATOMIC_RELAXED);
}

/* Instead of the C library's, for libhab.a. */
int clock_gettime(clockid_t clock, struct timespec *now)
{
	uint64_t ns = __atomic_load_n(&turned_ns, __ATOMIC_RELAXED);

	if (clock != CLOCK_MONOTONIC_COARSE)
		return (int)syscall(SYS_clock_gettime, clock, now);
	*now = (struct timespec){ .tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000 };
	return 0;
}

FIXTURE(trim)
{
	struct hab_heap *heap;
	struct hab_region region;
};

static struct hab_heap *make_heap(uint32_t flags)
{
	struct hab_heap_config config;
	struct hab_heap *heap = NULL;

	hab_heap_config_init(&config);
	config.arena_bytes = ARENA;
	/* Else the kernel gives 2 MiB at a time. */
	config.flags = flags | HAB_HEAP_SMALL_PAGES |
		       (access("/dev/hab", F_OK) ? HAB_HEAP_PROCESS : HAB_HEAP_DEVICE);
	return hab_heap_create(&heap, &config) ? NULL : heap;
}

/* Else the thread may be on another CPU whenever a trim is due. */
static void stay_on_this_cpu(void)
{
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	sched_setaffinity(0, sizeof(one), &one);
}

FIXTURE_SETUP(trim)
{
	stay_on_this_cpu();
	self->heap = make_heap(0);
	ASSERT_NE(NULL, self->heap);
	ASSERT_EQ(0, hab_region_open(&self->region, self->heap));
}

FIXTURE_TEARDOWN(trim)
{
	hab_heap_destroy(self->heap);
}

static size_t resident(const struct hab_heap *heap)
{
	static unsigned char pages[ARENA / 4096];
	size_t i, nr = 0;

	if (mincore(heap->arena, ARENA, pages))
		return 0;
	for (i = 0; i < ARENA / PAGE; i++)
		nr += pages[i] & 1;
	return nr * PAGE;
}

static bool fill(struct hab_region *region, size_t bytes, int value)
{
	char *object;

	for (; bytes >= 1000; bytes -= 1000) {
		object = hab_region_alloc(region, 1000);
		if (!object)
			return false;
		memset(object, value, 1000);
	}
	return true;
}

TEST_F(trim, closed_regions_that_were_not_used_for_a_second_go_back)
{
	struct hab_heap_stats stats;

	ASSERT_TRUE(fill(&self->region, BURST, 1));
	EXPECT_LE(BURST, resident(self->heap));
	hab_region_close(&self->region);
	wait_seconds(2.1);
	EXPECT_LE(BURST, resident(self->heap));
	ASSERT_EQ(0, hab_heap_trim(self->heap));
	EXPECT_GE(LITTLE, resident(self->heap));
	ASSERT_EQ(0, hab_heap_stats(self->heap, &stats));
	EXPECT_LE(BURST - LITTLE, stats.trimmed_bytes);
	EXPECT_GE(BURST + LITTLE, stats.trimmed_bytes);
	EXPECT_EQ(ARENA, accounted(self->heap));
	/* All of it serves again. */
	EXPECT_TRUE(fill(&self->region, ARENA / 100 * 97, 2));
	hab_region_close(&self->region);
	EXPECT_EQ(ARENA, accounted(self->heap));
	EXPECT_EQ(-EINVAL, hab_heap_trim(NULL));
}

TEST(hab_heap_trim_spares_what_was_used_though_nothing_else_trims)
{
	struct hab_heap *heap = make_heap(HAB_HEAP_NO_TRIM);
	struct hab_region region;

	ASSERT_NE(NULL, heap);
	hab_region_open(&region, heap);
	ASSERT_TRUE(fill(&region, BURST, 1));
	hab_region_close(&region);
	ASSERT_EQ(0, hab_heap_trim(heap));
	EXPECT_LE(BURST, resident(heap));
	wait_seconds(1.2);
	ASSERT_EQ(0, hab_heap_trim(heap));
	EXPECT_GE(LITTLE, resident(heap));
	/* One large object, too. */
	memset(hab_region_alloc(&region, BURST), 1, BURST);
	hab_region_close(&region);
	wait_seconds(1.2);
	ASSERT_EQ(0, hab_heap_trim(heap));
	EXPECT_GE(LITTLE, resident(heap));
	hab_heap_destroy(heap);
}

TEST_F(trim, what_was_used_within_the_last_second_stays)
{
	ASSERT_TRUE(fill(&self->region, BURST, 1));
	hab_region_close(&self->region);
	wait_seconds(2.1);
	/* Half of it is used once more. */
	ASSERT_TRUE(fill(&self->region, BURST / 2, 1));
	hab_region_close(&self->region);
	ASSERT_EQ(0, hab_heap_trim(self->heap));
	EXPECT_LE(BURST / 2, resident(self->heap));
	EXPECT_GE(BURST / 2 + LITTLE, resident(self->heap));
}

/* Small regions for some seconds, as of a server after its busiest hour. */
static bool go_on(struct hab_heap *heap)
{
	struct hab_region region;
	bool ok = true;
	int i;

	hab_region_open(&region, heap);
	for (i = 0; i < 300; i++) {
		ok = ok && fill(&region, 40000, 3);
		hab_region_close(&region);
		wait_seconds(0.01);
	}
	return ok;
}

TEST_F(trim, closes_of_regions_trim_by_themselves)
{
	ASSERT_TRUE(fill(&self->region, BURST, 1));
	hab_region_close(&self->region);
	ASSERT_TRUE(go_on(self->heap));
	EXPECT_GE(LITTLE, resident(self->heap));
}

TEST(a_heap_without_trims_keeps_its_memory)
{
	struct hab_heap *heap = make_heap(HAB_HEAP_NO_TRIM);
	struct hab_region region;

	ASSERT_NE(NULL, heap);
	hab_region_open(&region, heap);
	ASSERT_TRUE(fill(&region, BURST, 1));
	hab_region_close(&region);
	ASSERT_TRUE(go_on(heap));
	EXPECT_LE(BURST, resident(heap));
	hab_heap_destroy(heap);
}

#define REGIONS 400
#define OF_EACH (100 * 1000ul)

TEST_F(trim, objects_of_open_regions_keep_their_bytes_when_others_go_back)
{
	struct {
		struct hab_region region;
		unsigned char *object;
	} requests[REGIONS];
	size_t in_use = REGIONS / 10 * OF_EACH, i, b;
	struct hab_heap_stats stats;

	for (i = 0; i < REGIONS; i++) {
		ASSERT_EQ(0, hab_region_open(&requests[i].region, self->heap));
		requests[i].object = hab_region_alloc(&requests[i].region, 1000);
		ASSERT_NE(NULL, requests[i].object);
		memset(requests[i].object, i, 1000);
		ASSERT_TRUE(fill(&requests[i].region, OF_EACH - 1000, i));
	}
	for (i = 0; i < REGIONS; i++) {
		if (i % 10)
			hab_region_close(&requests[i].region);
	}
	wait_seconds(2.1);
	ASSERT_EQ(0, hab_heap_trim(self->heap));
	EXPECT_GE(in_use * 12 / 10 + LITTLE, resident(self->heap));
	for (i = 0; i < REGIONS; i += 10) {
		for (b = 0; b < 1000; b++)
			ASSERT_EQ((unsigned char)i, requests[i].object[b]);
		hab_region_close(&requests[i].region);
	}
	ASSERT_EQ(0, hab_heap_stats(self->heap, &stats));
	EXPECT_EQ(0, stats.open_chunks);
	EXPECT_EQ(ARENA, accounted(self->heap));
}

TEST_F(trim, large_objects_go_back_and_serve_again)
{
	char *object, *highest[2] = { 0 };
	int round, i;

	for (round = 0; round < 2; round++) {
		for (i = 0; i < 10; i++) {
			object = hab_region_alloc(&self->region, 4 * MiB);
			ASSERT_NE(NULL, object);
			memset(object, round, 4 * MiB);
			if (object > highest[round])
				highest[round] = object;
		}
		hab_region_close(&self->region);
		if (!round) {
			wait_seconds(2.1);
			ASSERT_EQ(0, hab_heap_trim(self->heap));
			EXPECT_GE(LITTLE, resident(self->heap));
		}
	}
	EXPECT_LE(highest[1], highest[0]);
	EXPECT_EQ(ARENA, accounted(self->heap));
}

static bool use_and_reset(struct hab_heap *heap, size_t bytes)
{
	char *object;

	for (; bytes >= 1000; bytes -= 1000) {
		object = hab_alloc(heap, 1000);
		if (!object)
			return false;
		memset(object, 1, 1000);
	}
	return !hab_heap_reset(heap);
}

TEST_F(trim, a_reset_returns_what_the_resets_of_the_second_before_did_not_need)
{
	int i;

	for (i = 0; i < 12; i++) {
		ASSERT_TRUE(use_and_reset(self->heap, MiB));
		wait_seconds(0.2);
	}
	ASSERT_TRUE(use_and_reset(self->heap, BURST));
	EXPECT_GE(LITTLE + 4 * MiB, resident(self->heap));
}

TEST_F(trim, resets_of_a_heap_with_one_load_return_nothing)
{
	int i;

	for (i = 0; i < 12; i++) {
		ASSERT_TRUE(use_and_reset(self->heap, BURST));
		EXPECT_LE(BURST, resident(self->heap));
		wait_seconds(0.2);
	}
	/* Most resets of a second are small, but not all. */
	for (i = 0; i < 40; i++) {
		ASSERT_TRUE(use_and_reset(self->heap, i % 3 ? MiB : BURST));
		EXPECT_LE(BURST, resident(self->heap));
		wait_seconds(0.05);
	}
}

static int trimming_threads(void)
{
	struct dirent *entry;
	char path[300], name[32];
	DIR *tasks = opendir("/proc/self/task");
	FILE *file;
	int nr = 0;

	while (tasks && (entry = readdir(tasks))) {
		snprintf(path, sizeof(path), "/proc/self/task/%s/comm", entry->d_name);
		file = fopen(path, "re");
		if (!file)
			continue;
		nr += fgets(name, sizeof(name), file) && !strcmp(name, "hab-trim\n");
		fclose(file);
	}
	if (tasks)
		closedir(tasks);
	return nr;
}

static bool burst_and_silence(struct hab_heap *heap)
{
	struct hab_region region;
	bool ok;

	hab_region_open(&region, heap);
	ok = fill(&region, BURST, 1);
	hab_region_close(&region);
	wait_seconds(1.2);
	/* The thread looks once in a real second. */
	while (ok && resident(heap) > LITTLE)
		usleep(10000);
	return ok;
}

TEST(a_silent_program_has_a_thread_that_trims_and_its_child_too)
{
	struct hab_heap *heap = make_heap(HAB_HEAP_TRIM_THREAD);
	int status;
	pid_t child;

	ASSERT_NE(NULL, heap);
	EXPECT_EQ(0, trimming_threads());
	EXPECT_TRUE(burst_and_silence(heap));
	EXPECT_EQ(1, trimming_threads());
	child = fork();
	if (!child)
		_exit(trimming_threads() || !burst_and_silence(heap) || trimming_threads() != 1);
	ASSERT_EQ(child, waitpid(child, &status, 0));
	EXPECT_EQ(0, status);
	hab_heap_destroy(heap);
	while (trimming_threads())
		usleep(10000);
}

#define TINY (8 * MiB)

static bool stop;

static void *trim_always(void *argument)
{
	struct hab_heap *heap = argument;
	struct hab_thread *thread = hab_thread_get(heap);

	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		/* All that is free is old. */
		hab_collect_lock();
		hab_trim(heap, thread, hab_trim_now() + 1000, UINT32_MAX);
		hab_collect_unlock();
	}
	return NULL;
}

/* Each region needs most of the heap: what the trim has is waited for. */
TEST(a_full_heap_is_never_out_of_memory_because_of_a_trim)
{
	struct hab_heap_config config;
	struct hab_heap_stats stats;
	struct hab_region region;
	struct hab_heap *heap;
	pthread_t thread;
	int i, bad = 0;

	hab_heap_config_init(&config);
	config.arena_bytes = TINY;
	config.levels = "none";
	config.flags = HAB_HEAP_NO_TRIM |
		       (access("/dev/hab", F_OK) ? HAB_HEAP_PROCESS : HAB_HEAP_DEVICE);
	ASSERT_EQ(0, hab_heap_create(&heap, &config));
	hab_region_open(&region, heap);
	ASSERT_EQ(0, pthread_create(&thread, NULL, trim_always, heap));
	for (i = 0; i < 30 || !stats.trimmed_bytes || !stats.collections; i++) {
		bad += !fill(&region, TINY / 10 * 9, i);
		hab_region_close(&region);
		ASSERT_EQ(0, hab_heap_stats(heap, &stats));
	}
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
	EXPECT_EQ(0, bad);
	TH_LOG("%lu MiB trimmed, %lu collections", (long)(stats.trimmed_bytes / MiB),
	       (long)stats.collections);
	hab_heap_destroy(heap);
}

TEST_HARNESS_MAIN
