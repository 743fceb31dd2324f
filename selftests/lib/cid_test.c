// SPDX-License-Identifier: GPL-2.0-only
/*
 * Buffers of concurrency ids: the domain "cid". What the kernel gives a thread is read here from
 * the C library's rseq area, not by libhab.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "lib/hab.h"

#define BUFFER	     (256ul << 10)
#define THREADS	     4
#define FEATURE_SIZE 27 /* AT_RSEQ_FEATURE_SIZE */
#define CID_AT	     24

extern const ptrdiff_t __rseq_offset __attribute__((weak));
extern const unsigned int __rseq_size __attribute__((weak));

static bool kernel_has_cids(void)
{
	return getauxval(FEATURE_SIZE) >= CID_AT + 4 && &__rseq_size && __rseq_size;
}

static uint32_t kernels_cid(void)
{
	return *(volatile uint32_t *)((char *)__builtin_thread_pointer() + __rseq_offset + CID_AT);
}

/* Runs the calling thread on the CPU; false if there is none of that number. */
static bool move_to(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	return !sched_setaffinity(0, sizeof(set), &set);
}

static struct hab_heap *make_heap(const char *levels, uint32_t flags)
{
	struct hab_heap_config config;
	struct hab_heap *heap;

	hab_heap_config_init(&config);
	config.arena_bytes = 64ul << 20;
	config.levels = levels;
	config.flags = flags;
	return hab_heap_create(&heap, &config) ? NULL : heap;
}

/* Buffers of the lowest level that got memory. */
static uint64_t buffers(struct hab_heap *heap)
{
	struct hab_heap_stats stats;

	return hab_heap_stats(heap, &stats) ? 0 : stats.levels[stats.nr_levels].refills;
}

TEST(a_chunk_has_the_cid_of_its_thread_and_the_cpu_that_it_is_on)
{
	struct hab_heap *heap;
	struct hab_chunk chunk;
	int cpu, compared = 0;
	uint32_t before;

	if (!kernel_has_cids())
		SKIP(return, "this kernel or C library has no concurrency ids");
	heap = make_heap("clab=256K@cid", HAB_HEAP_PROCESS);
	ASSERT_NE(NULL, heap);
	for (cpu = 0; move_to(cpu); cpu++) {
		before = kernels_cid();
		ASSERT_EQ(0, hab_chunk_take(heap, 64, &chunk));
		EXPECT_EQ(cpu, chunk.cpu);
		EXPECT_EQ(1, chunk.level);
		/* Interrupted in between, the thread may have another one. */
		if (kernels_cid() != before)
			continue;
		EXPECT_EQ(before, (uint32_t)chunk.domain);
		compared++;
	}
	EXPECT_GT(compared, 0);
	hab_heap_destroy(heap);
}

struct walkers {
	struct hab_heap *heap;
	pthread_barrier_t together;
	int nr_cpus;
};

/* Each thread takes a chunk on each CPU. */
static void *walk(void *argument)
{
	struct walkers *walkers = argument;
	struct hab_chunk chunk;
	int i;

	for (i = 0; i < walkers->nr_cpus; i++) {
		move_to(i);
		if (hab_chunk_take(walkers->heap, 64, &chunk))
			return "no memory";
		pthread_barrier_wait(&walkers->together);
	}
	return NULL;
}

/* Buffers after a walk of some threads over all CPUs. */
static uint64_t buffers_after_walk(const char *levels, int *nr_cpus)
{
	struct walkers walkers = { .heap = make_heap(levels, HAB_HEAP_PROCESS) };
	pthread_t threads[THREADS];
	void *failed, *any = NULL;
	uint64_t nr;
	int i;

	if (!walkers.heap)
		return 0;
	*nr_cpus = walkers.nr_cpus = sysconf(_SC_NPROCESSORS_ONLN);
	pthread_barrier_init(&walkers.together, NULL, THREADS);
	for (i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, walk, &walkers);
	for (i = 0; i < THREADS; i++) {
		pthread_join(threads[i], &failed);
		any = any ? any : failed;
	}
	nr = any ? 0 : buffers(walkers.heap);
	hab_heap_destroy(walkers.heap);
	return nr;
}

/* Older kernels give a thread that they move a new cid for 100 ms, before 6.14 often. */
static bool kernel_keeps_cids(void)
{
	struct utsname name;

	return !uname(&name) && atoi(name.release) >= 7;
}

TEST(threads_that_walk_over_all_cpus_have_buffers_by_their_number)
{
	uint64_t by_cpu, by_cid;
	int nr_cpus;

	if (!kernel_has_cids())
		SKIP(return, "this kernel or C library has no concurrency ids");
	by_cpu = buffers_after_walk("clab=256K@cpu", &nr_cpus);
	by_cid = buffers_after_walk("clab=256K@cid", &nr_cpus);
	TH_LOG("%d CPUs, %d threads: %lu buffers of CPUs, %lu of cids", nr_cpus, THREADS,
	       (long)by_cpu, (long)by_cid);
	EXPECT_EQ((uint64_t)nr_cpus, by_cpu);
	EXPECT_GE(by_cid, 1);
	EXPECT_LE(by_cid, (uint64_t)nr_cpus);
	if (kernel_keeps_cids())
		EXPECT_LE(by_cid, THREADS);
}

TEST(levels_above_a_level_of_cids_are_of_cpus_and_none_is_below)
{
	struct hab_heap *heap = make_heap("plab=1M@package,clab=64K@cid", HAB_HEAP_PROCESS);
	struct hab_chunk chunk;

	ASSERT_NE(NULL, heap);
	ASSERT_TRUE(move_to(0));
	/* Too large for the lowest level. */
	ASSERT_EQ(0, hab_chunk_take(heap, 128 << 10, &chunk));
	EXPECT_EQ(1, chunk.level);
	EXPECT_EQ(0, chunk.domain);
	hab_heap_destroy(heap);
	EXPECT_EQ(NULL, make_heap("plab=1M@cid,clab=64K@cpu", HAB_HEAP_PROCESS));
	EXPECT_EQ(NULL, make_heap("plab=1M@cid,clab=64K@cid", HAB_HEAP_PROCESS));
	EXPECT_EQ(NULL, make_heap("clab=64K@cids", HAB_HEAP_PROCESS));
}

static void expect_cpus(struct __test_metadata *_metadata, struct hab_heap *heap, const char *why)
{
	struct hab_chunk chunk;
	int cpu;

	ASSERT_NE(NULL, heap);
	EXPECT_NE(NULL, strstr(hab_heap_backend_reason(heap), why))
	{
		TH_LOG("%s", hab_heap_backend_reason(heap));
	}
	for (cpu = 0; move_to(cpu); cpu++) {
		ASSERT_EQ(0, hab_chunk_take(heap, 64, &chunk));
		EXPECT_EQ(cpu, chunk.domain);
	}
	hab_heap_destroy(heap);
}

TEST(a_kernel_without_cids_gives_buffers_of_cpus_and_the_heap_says_so)
{
	if (getauxval(FEATURE_SIZE) >= CID_AT + 4)
		SKIP(return, "this kernel has concurrency ids");
	expect_cpus(_metadata, make_heap("clab=256K@cid", HAB_HEAP_PROCESS),
		    "the domain cid is cpu here, because the kernel has no concurrency ids");
}

TEST(the_module_gives_buffers_of_cpus_and_the_heap_says_so)
{
	if (access("/dev/hab", F_OK))
		SKIP(return, "no /dev/hab: module hab is not loaded here");
	expect_cpus(_metadata, make_heap("clab=256K@cid", HAB_HEAP_DEVICE),
		    "the domain cid is cpu here, because");
}

TEST_HARNESS_MAIN
