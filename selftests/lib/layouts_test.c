// SPDX-License-Identifier: GPL-2.0-only
/*
 * libhab with every kind of configuration: levels, sizes, and modes of TLABs.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "lib/hab.h"

#define KiB	(1ul << 10)
#define MiB	(1ul << 20)
#define THREADS 8

FIXTURE(layout)
{
	struct hab_heap *heap;
	struct hab_heap_config config;
};

FIXTURE_VARIANT(layout)
{
	const char *levels;
	size_t tlab_bytes;
	uint32_t flags;
};

#define LAYOUT(name, levels, tlab, flags)               \
	FIXTURE_VARIANT_ADD(layout, name)               \
	{                                               \
		levels, tlab, (flags) | HAB_HEAP_VERIFY \
	}

LAYOUT(tlab_heap, "none", 4 * KiB, HAB_HEAP_PROCESS);
LAYOUT(tlab_plab, "plab=1M@package", 1 * KiB, HAB_HEAP_PROCESS);
LAYOUT(tlab_clab, "clab=256K@core", 16 * KiB, HAB_HEAP_PROCESS);
LAYOUT(tlab_clab_plab, "plab=2M@package,clab=128K@cpu", 8 * KiB, HAB_HEAP_PROCESS);
LAYOUT(four_above_the_tlabs, "g=8M@global,n=4M@node,p=2M@llc,c=128K@cpu", 8 * KiB,
       HAB_HEAP_PROCESS);
LAYOUT(tlabs_larger_than_the_clabs, "plab=2M@package,clab=64K@cpu", 256 * KiB, HAB_HEAP_PROCESS);
LAYOUT(no_tlabs, "clab=256K@cpu", HAB_TLAB_NONE, HAB_HEAP_PROCESS);
LAYOUT(growing_tlabs, "clab=256K@cpu", HAB_TLAB_GROWING, HAB_HEAP_PROCESS);
LAYOUT(all_automatic, "auto", HAB_TLAB_AUTO, HAB_HEAP_PROCESS);
LAYOUT(automatic_tlabs_on_a_level, "clab=auto@cpu", HAB_TLAB_AUTO, HAB_HEAP_PROCESS);
LAYOUT(automatic_levels, "plab=auto@package,clab=auto@cpu", 8 * KiB, HAB_HEAP_PROCESS);
LAYOUT(device_tlab_heap, "none", 4 * KiB, HAB_HEAP_DEVICE);
LAYOUT(device_tlab_clab_plab, "plab=2M@package,clab=128K@cpu", 8 * KiB, HAB_HEAP_DEVICE);
LAYOUT(device_four_above_the_tlabs, "g=8M@global,n=4M@node,p=2M@llc,c=128K@cpu", 8 * KiB,
       HAB_HEAP_DEVICE);
LAYOUT(device_no_tlabs, "clab=256K@cpu", HAB_TLAB_NONE, HAB_HEAP_DEVICE);
LAYOUT(device_all_automatic, "plab=auto@package,clab=auto@cpu", HAB_TLAB_AUTO, HAB_HEAP_DEVICE);

FIXTURE_SETUP(layout)
{
	if ((variant->flags & HAB_HEAP_DEVICE) && access("/dev/hab", F_OK))
		SKIP(return, "no /dev/hab: module hab is not loaded here");
	hab_heap_config_init(&self->config);
	self->config.arena_bytes = 64 * MiB;
	self->config.levels = variant->levels;
	self->config.tlab_bytes = variant->tlab_bytes;
	self->config.flags = variant->flags;
	ASSERT_EQ(0, hab_heap_create(&self->heap, &self->config));
}

FIXTURE_TEARDOWN(layout)
{
	hab_heap_destroy(self->heap);
}

struct worker {
	pthread_t thread;
	struct hab_heap *heap;
	unsigned int seed;
	uint64_t bytes;
	uint64_t objects;
	uint64_t bad;
	void *last;
};

/* Objects of random sizes until the heap is full, in a list, each with its own mark. */
static void *fill(void *arg)
{
	struct worker *worker = arg;
	uint64_t *object, *end;
	size_t size;

	for (;;) {
		size = 24 + rand_r(&worker->seed) % (rand_r(&worker->seed) % 128 ? 500 : 100000);
		object = hab_alloc(worker->heap, size);
		if (!object)
			break;
		end = object + size / 8 - 1;
		object[0] = (uintptr_t)worker->last;
		object[1] = size;
		*end = (uintptr_t)object;
		worker->last = object;
		worker->bytes += size;
		worker->objects++;
	}
	for (object = worker->last; object; object = (uint64_t *)object[0])
		worker->bad += object[object[1] / 8 - 1] != (uintptr_t)object;
	return NULL;
}

static void run_workers(struct worker *workers, int nr, void *(*work)(void *),
			struct hab_heap *heap)
{
	int i;

	for (i = 0; i < nr; i++) {
		workers[i] = (struct worker){ .heap = heap, .seed = i + 1 };
		if (pthread_create(&workers[i].thread, NULL, work, &workers[i]))
			abort();
	}
	for (i = 0; i < nr; i++)
		pthread_join(workers[i].thread, NULL);
}

/* Bytes that are free, waste, or in chunks that were not returned; of a heap without resets. */
static uint64_t books_sum(const struct hab_heap_stats *stats)
{
	uint64_t sum = stats->chunk_bytes - stats->returned_bytes;
	unsigned int l;

	for (l = 0; l < HAB_STATS_LEVELS; l++)
		sum += stats->levels[l].free_bytes + stats->levels[l].waste_bytes;
	return sum;
}

TEST_F(layout, objects_are_disjoint_and_no_byte_is_lost)
{
	struct worker workers[THREADS];
	struct hab_heap_stats stats;
	uint64_t bytes = 0, objects = 0;
	int i;

	if (!self->heap)
		SKIP(return, "no /dev/hab: module hab is not loaded here");
	run_workers(workers, THREADS, fill, self->heap);
	for (i = 0; i < THREADS; i++) {
		EXPECT_EQ(0, workers[i].bad);
		bytes += workers[i].bytes;
		objects += workers[i].objects;
	}
	ASSERT_EQ(0, hab_heap_stats(self->heap, &stats));
	EXPECT_EQ(64 * MiB, books_sum(&stats));
	EXPECT_GE(stats.allocated_bytes, bytes);
	/* Each object costs less than a granule of alignment. */
	EXPECT_LE(stats.allocated_bytes, bytes + 64 * objects);
	EXPECT_EQ(stats.chunk_bytes - stats.returned_bytes,
		  stats.allocated_bytes + stats.tlab_waste_bytes);
	EXPECT_EQ(0, stats.foreign);
	ASSERT_EQ(0, hab_heap_reset(self->heap));
	EXPECT_NE(NULL, hab_alloc(self->heap, 100));
}

static void *allocate_a_little(void *arg)
{
	struct worker *worker = arg;

	worker->bad = !hab_alloc(worker->heap, 100);
	return NULL;
}

/* Many more TLABs than the arena can hold. */
TEST_F(layout, unused_ends_of_tlabs_serve_other_threads)
{
	struct hab_heap_stats stats;
	struct worker worker;
	int i, bad = 0;

	if (!self->heap)
		SKIP(return, "no /dev/hab: module hab is not loaded here");
	for (i = 0; i < 5000; i++) {
		run_workers(&worker, 1, allocate_a_little, self->heap);
		bad += worker.bad;
	}
	ASSERT_EQ(0, hab_heap_stats(self->heap, &stats));
	EXPECT_EQ(64 * MiB, books_sum(&stats));
	EXPECT_EQ(0, bad);
	/* If unused ends were lost, a TLAB per thread would be 20 MiB at 4 KiB each. */
	EXPECT_LE(stats.chunk_bytes - stats.returned_bytes, 2 * MiB);
}

static int create(struct hab_heap **heap, const char *levels, size_t tlab, uint32_t flags)
{
	struct hab_heap_config config;

	hab_heap_config_init(&config);
	config.arena_bytes = 64 * MiB;
	config.levels = levels;
	config.tlab_bytes = tlab;
	config.flags = flags;
	return hab_heap_create(heap, &config);
}

static void pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	sched_setaffinity(0, sizeof(set), &set);
}

/* The bytes that one CPU gets of a heap of which each CPU has had a chunk; or 0. */
static uint64_t take_all(const char *levels, uint32_t flags)
{
	struct hab_chunk chunk;
	struct hab_heap *heap;
	uint64_t sum = 0;
	cpu_set_t all;
	int cpu, last = -1;

	sched_getaffinity(0, sizeof(all), &all);
	if (create(&heap, levels, 4 * KiB, flags))
		return 0;
	for (cpu = 0; cpu < 8; cpu++) {
		if (!CPU_ISSET(cpu, &all))
			continue;
		pin(cpu);
		last = cpu;
		sum += hab_chunk_take(heap, 64, &chunk) ? 0 : chunk.size;
	}
	pin(last);
	while (!hab_chunk_take(heap, 4 * KiB, &chunk))
		sum += chunk.size;
	while (!hab_chunk_take(heap, 64, &chunk))
		sum += chunk.size;
	sched_setaffinity(0, sizeof(all), &all);
	hab_heap_destroy(heap);
	return sum;
}

TEST(a_full_heap_uses_what_other_cpus_buffers_have_left)
{
	EXPECT_EQ(64 * MiB, take_all("clab=8M@cpu", HAB_HEAP_PROCESS));
}

TEST(a_full_heap_of_the_device_uses_what_other_cpus_buffers_have_left)
{
	if (access("/dev/hab", F_OK))
		SKIP(return, "no /dev/hab: module hab is not loaded here");
	EXPECT_EQ(64 * MiB, take_all("clab=8M@cpu", HAB_HEAP_DEVICE));
	EXPECT_EQ(64 * MiB, take_all("plab=8M@package,clab=4M@cpu", HAB_HEAP_DEVICE));
}

static void *allocate_megabytes(void *arg)
{
	struct worker *worker = arg;
	int i;

	for (i = 0; i < 60000; i++)
		worker->bad += !hab_alloc(worker->heap, 1000);
	return NULL;
}

TEST(a_growing_tlab_makes_its_thread_refill_about_fifty_times_between_resets)
{
	struct hab_heap_stats before, after;
	struct hab_heap *heap;
	struct worker me;
	int i;

	/* As many threads as HotSpot divides by at the start; all but one stay idle. */
	ASSERT_EQ(0, create(&heap, "none", HAB_TLAB_GROWING, HAB_HEAP_PROCESS));
	me = (struct worker){ .heap = heap };
	ASSERT_NE(NULL, hab_alloc(heap, 16));
	for (i = 0; i < 10; i++) {
		ASSERT_EQ(0, hab_heap_stats(heap, &before));
		allocate_megabytes(&me);
		ASSERT_EQ(0, hab_heap_stats(heap, &after));
		ASSERT_EQ(0, hab_heap_reset(heap));
	}
	EXPECT_EQ(0, me.bad);
	EXPECT_GE(after.tlab_refills - before.tlab_refills, 25);
	EXPECT_LE(after.tlab_refills - before.tlab_refills, 75);
	hab_heap_destroy(heap);
}

static pthread_barrier_t begun, done, seen;

static void *allocate_less(void *arg)
{
	struct worker *worker = arg;
	int i, round;

	for (round = 0; round < 10; round++) {
		pthread_barrier_wait(&begun);
		for (i = 0; i < 6000; i++)
			worker->bad += !hab_alloc(worker->heap, 1000);
		pthread_barrier_wait(&done);
	}
	return NULL;
}

TEST(growing_tlabs_are_in_proportion_to_what_their_threads_allocate)
{
	struct hab_heap_stats before, after;
	struct worker other, me;
	struct hab_heap *heap;
	int i, round;

	ASSERT_EQ(0, create(&heap, "none", HAB_TLAB_GROWING, HAB_HEAP_PROCESS));
	me = other = (struct worker){ .heap = heap };
	pthread_barrier_init(&begun, NULL, 2);
	pthread_barrier_init(&done, NULL, 2);
	ASSERT_EQ(0, pthread_create(&other.thread, NULL, allocate_less, &other));
	for (round = 0; round < 10; round++) {
		ASSERT_EQ(0, hab_heap_stats(heap, &before));
		pthread_barrier_wait(&begun);
		for (i = 0; i < 48000; i++)
			me.bad += !hab_alloc(heap, 1000);
		pthread_barrier_wait(&done);
		ASSERT_EQ(0, hab_heap_stats(heap, &after));
		if (round < 9)
			ASSERT_EQ(0, hab_heap_reset(heap));
	}
	pthread_join(other.thread, NULL);
	EXPECT_EQ(0, me.bad + other.bad);
	/* About 50 for each; with TLABs of one size the other would have had a few. */
	EXPECT_GE(after.tlab_refills - before.tlab_refills, 70);
	EXPECT_LE(after.tlab_refills - before.tlab_refills, 150);
	hab_heap_destroy(heap);
}

TEST(a_tlab_larger_than_a_buffer_is_taken_whole_from_the_next_level)
{
	struct hab_heap_stats stats;
	struct hab_heap *heap;
	int i;

	ASSERT_EQ(0, create(&heap, "plab=2M@package,clab=64K@cpu", 256 * KiB, HAB_HEAP_PROCESS));
	for (i = 0; i < 10 * 1024; i++)
		ASSERT_NE(NULL, hab_alloc(heap, 1024));
	ASSERT_EQ(0, hab_heap_stats(heap, &stats));
	EXPECT_EQ(40, stats.tlab_refills);
	EXPECT_EQ(0, stats.levels[2].refills);
	hab_heap_destroy(heap);
}

static void *allocate_megabytes_together(void *arg)
{
	struct worker *worker = arg;

	worker->bad += !hab_alloc(worker->heap, 16);
	pthread_barrier_wait(&begun);
	allocate_megabytes(worker);
	pthread_barrier_wait(&done);
	pthread_barrier_wait(&seen);
	return NULL;
}

TEST(automatic_tlabs_grow_and_stay_within_the_waste_limit)
{
	struct worker workers[THREADS];
	struct hab_heap_stats stats;
	struct hab_heap_config config;
	struct hab_heap *heap;
	int i;

	hab_heap_config_init(&config);
	config.arena_bytes = 1024 * MiB;
	config.levels = "none";
	config.tlab_bytes = HAB_TLAB_AUTO;
	config.waste_percent = 2;
	config.flags = HAB_HEAP_PROCESS;
	ASSERT_EQ(0, hab_heap_create(&heap, &config));
	pthread_barrier_init(&begun, NULL, THREADS);
	pthread_barrier_init(&done, NULL, THREADS + 1);
	pthread_barrier_init(&seen, NULL, THREADS + 1);
	for (i = 0; i < THREADS; i++) {
		workers[i] = (struct worker){ .heap = heap };
		ASSERT_EQ(0, pthread_create(&workers[i].thread, NULL, allocate_megabytes_together,
					    &workers[i]));
	}
	pthread_barrier_wait(&done);
	ASSERT_EQ(0, hab_heap_stats(heap, &stats));
	/* Each started with 1 KiB, in which one of these objects fits. */
	EXPECT_LT(stats.tlab_refills, THREADS * 60000 / 8);
	/* The limit is for TLABs only here, and is four times that while most is free. */
	EXPECT_LE(stats.chunk_bytes - stats.allocated_bytes, 4 * (1024 * MiB / 100 * 2));
	pthread_barrier_wait(&seen);
	for (i = 0; i < THREADS; i++) {
		pthread_join(workers[i].thread, NULL);
		EXPECT_EQ(0, workers[i].bad);
	}
	hab_heap_destroy(heap);
}

TEST(automatic_levels_stay_within_the_waste_limit)
{
	/* TLABs are fixed, so each of the two levels gets half of the 5 percent. */
	const uint64_t share = 64 * MiB / 100 * 5 / 2;
	uint64_t granted = 0, most = 0, block, limit;
	struct hab_heap_stats stats;
	struct hab_heap *heap;
	struct hab_chunk chunk;

	ASSERT_EQ(0, create(&heap, "plab=auto@package,clab=auto@cpu", 4 * KiB, HAB_HEAP_PROCESS));
	while (!hab_chunk_take(heap, 1 * KiB, &chunk)) {
		ASSERT_EQ(0, hab_heap_stats(heap, &stats));
		block = stats.levels[1].granted_bytes - granted;
		/* More while most is free. */
		limit = (64 * MiB - granted) / 16;
		EXPECT_LE(block, limit > share ? limit : share);
		most = block > most ? block : most;
		granted = stats.levels[1].granted_bytes;
	}
	EXPECT_EQ(2, stats.nr_levels);
	/* The buffers did grow. */
	if (!getenv("HAB_RSEQ")) /* without rseq nothing is taken from buffers */
		EXPECT_GE(most, 8 * KiB);
	hab_heap_destroy(heap);
	EXPECT_EQ(-EINVAL, create(&heap, "plab=automatic@package", 4 * KiB, HAB_HEAP_PROCESS));
}

TEST(auto_is_no_level_for_automatic_tlabs_and_one_level_for_others)
{
	struct hab_heap_stats stats;
	struct hab_heap *heap;

	if (getenv("HAB_RSEQ"))
		SKIP(return, "without rseq nothing is taken from buffers");
	/* No level is one buffer for all CPUs, as large as the arena. */
	ASSERT_EQ(0, create(&heap, "auto", HAB_TLAB_AUTO, HAB_HEAP_PROCESS));
	ASSERT_NE(NULL, hab_alloc(heap, 1024));
	ASSERT_EQ(0, hab_heap_stats(heap, &stats));
	EXPECT_EQ(64 * MiB, stats.levels[1].granted_bytes);
	hab_heap_destroy(heap);

	ASSERT_EQ(0, create(&heap, "auto", 4 * KiB, HAB_HEAP_PROCESS));
	ASSERT_NE(NULL, hab_alloc(heap, 1024));
	ASSERT_EQ(0, hab_heap_stats(heap, &stats));
	EXPECT_LE(stats.levels[1].granted_bytes, MiB);
	hab_heap_destroy(heap);
}

static void *own_heaps(void *arg)
{
	struct worker *worker = arg;
	struct hab_heap *heap;
	int i, j;

	for (i = 0; i < 50; i++) {
		if (create(&heap, NULL, 4 * KiB, 0)) {
			worker->bad++;
			continue;
		}
		for (j = 0; j < 200; j++) {
			char *object = hab_alloc(heap, 500);

			if (object)
				memset(object, j, 500);
			else
				worker->bad++;
		}
		hab_heap_destroy(heap);
	}
	return NULL;
}

TEST(threads_may_create_and_destroy_heaps_all_the_time)
{
	struct worker workers[THREADS];
	int i;

	run_workers(workers, THREADS, own_heaps, NULL);
	for (i = 0; i < THREADS; i++)
		EXPECT_EQ(0, workers[i].bad);
}

/* The executed program of the test below. */
__attribute__((constructor)) static void after_exec(void)
{
	struct hab_heap *heap;

	if (!getenv("HAB_TEST_EXEC"))
		return;
	_exit(hab_heap_create(&heap, NULL) || !hab_alloc(heap, 100) ? 1 : 42);
}

TEST(an_executed_program_starts_with_new_heaps)
{
	struct hab_heap *heap;
	int status;
	pid_t pid;

	ASSERT_EQ(0, hab_heap_create(&heap, NULL));
	ASSERT_NE(NULL, hab_alloc(heap, 100));
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		setenv("HAB_TEST_EXEC", "1", 1);
		execl("/proc/self/exe", "layouts_test", NULL);
		_exit(2);
	}
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(42, WEXITSTATUS(status));
	hab_heap_destroy(heap);
}

struct plugin {
	int (*create)(struct hab_heap **heap, const struct hab_heap_config *config);
	void *(*alloc)(struct hab_heap *heap, size_t size);
	pthread_barrier_t used, closed;
};

static void *use_plugin(void *arg)
{
	struct plugin *plugin = arg;
	struct hab_heap *heap;
	void *object = NULL;

	if (!plugin->create(&heap, NULL))
		object = plugin->alloc(heap, 100);
	pthread_barrier_wait(&plugin->used);
	pthread_barrier_wait(&plugin->closed);
	/* The thread's exit runs the library's destructor. */
	return object;
}

TEST(a_thread_may_exit_after_the_dlclose_of_the_library)
{
	void *library = dlopen("libhab.so.0", RTLD_NOW);
	struct plugin plugin;
	pthread_t thread;
	void *object;

	if (!library)
		library = dlopen("build/libhab.so.0", RTLD_NOW);
	if (!library)
		SKIP(return, "no libhab.so.0: neither installed nor in build/");
	plugin.create = dlsym(library, "hab_heap_create");
	plugin.alloc = dlsym(library, "hab_alloc");
	ASSERT_NE(NULL, plugin.create);
	ASSERT_NE(NULL, plugin.alloc);
	pthread_barrier_init(&plugin.used, NULL, 2);
	pthread_barrier_init(&plugin.closed, NULL, 2);
	ASSERT_EQ(0, pthread_create(&thread, NULL, use_plugin, &plugin));
	pthread_barrier_wait(&plugin.used);
	EXPECT_EQ(0, dlclose(library));
	pthread_barrier_wait(&plugin.closed);
	ASSERT_EQ(0, pthread_join(thread, &object));
	EXPECT_NE(NULL, object);
}

TEST_HARNESS_MAIN
