// SPDX-License-Identifier: GPL-2.0-only
/*
 * libhab by its public header: the promises of hab.h on every backend that the machine has.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* Other tests call hab_alloc() in the library. */
#define HAB_INLINE
#include "kselftest_harness.h"
#include "lib/clock.h"
#include "lib/hab.h"

#define KiB (1ul << 10)
#define MiB (1ul << 20)

FIXTURE(heap)
{
	struct hab_heap *heap;
	struct hab_heap_config config;
};

FIXTURE_VARIANT(heap)
{
	uint32_t flags;
	const char *levels;
};

#define VARIANT(name, flags, levels)    \
	FIXTURE_VARIANT_ADD(heap, name) \
	{                               \
		flags, levels           \
	}

VARIANT(process_clab, HAB_HEAP_PROCESS | HAB_HEAP_VERIFY, "clab=256K@cpu");
VARIANT(process_plab, HAB_HEAP_PROCESS | HAB_HEAP_VERIFY, "plab=1M@package");
VARIANT(process_cid, HAB_HEAP_PROCESS | HAB_HEAP_VERIFY, "clab=256K@cid");
VARIANT(device_clab, HAB_HEAP_DEVICE | HAB_HEAP_VERIFY, "clab=256K@cpu");
VARIANT(device_plab, HAB_HEAP_DEVICE | HAB_HEAP_VERIFY, "plab=1M@package");
/* Without verification the sections of the fast path take the chunks. */
VARIANT(plain_clab, HAB_HEAP_PROCESS, "clab=256K@cpu");
VARIANT(plain_cid, HAB_HEAP_PROCESS, "clab=256K@cid");
VARIANT(plain_plab, HAB_HEAP_PROCESS, "plab=1M@package");

FIXTURE_SETUP(heap)
{
	if ((variant->flags & HAB_HEAP_DEVICE) && access("/dev/hab", F_OK))
		SKIP(return, "no /dev/hab: module hab is not loaded here");
	hab_heap_config_init(&self->config);
	self->config.arena_bytes = 64 * MiB;
	self->config.levels = variant->levels;
	self->config.flags = variant->flags;
	ASSERT_EQ(0, hab_heap_create(&self->heap, &self->config));
}

FIXTURE_TEARDOWN(heap)
{
	hab_heap_destroy(self->heap);
}

TEST_F(heap, objects_are_aligned_and_disjoint)
{
	unsigned char *objects[2000];
	size_t sizes[2000];
	int i, j;

	for (i = 0; i < 2000; i++) {
		sizes[i] = 1 + (i * 7919) % (i % 50 ? 700 : 70000);
		objects[i] = hab_alloc(self->heap, sizes[i]);
		ASSERT_NE(NULL, objects[i]);
		ASSERT_EQ(0, (uintptr_t)objects[i] % 16);
		memset(objects[i], i & 0xff, sizes[i]);
	}
	for (i = 0; i < 2000; i++) {
		for (j = 0; j < (int)sizes[i]; j += 61)
			ASSERT_EQ(i & 0xff, objects[i][j]);
		ASSERT_EQ(i & 0xff, objects[i][sizes[i] - 1]);
	}
}

TEST_F(heap, alignments_are_kept_and_invalid_ones_are_einval)
{
	/* So that the compiler does not see it. */
	volatile size_t none = 48;
	size_t alignment;

	for (alignment = 1; alignment <= 1 * MiB; alignment *= 2) {
		char *object = hab_alloc_aligned(self->heap, alignment, 100);

		ASSERT_NE(NULL, object);
		EXPECT_EQ(0, (uintptr_t)object % alignment);
		memset(object, 1, 100);
	}
	EXPECT_EQ(NULL, hab_alloc_aligned(self->heap, 0, 16));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(NULL, hab_alloc_aligned(self->heap, none, 16));
	EXPECT_EQ(EINVAL, errno);
}

TEST_F(heap, impossible_sizes_are_enomem)
{
	static const size_t sizes[] = { SIZE_MAX, SIZE_MAX - 15, SIZE_MAX / 2, 1ul << 48,
					65 * MiB };
	volatile size_t half = SIZE_MAX / 2 + 2;
	struct hab_chunk chunk;
	unsigned int i;

	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		errno = 0;
		EXPECT_EQ(NULL, hab_alloc(self->heap, sizes[i]));
		EXPECT_EQ(ENOMEM, errno);
		EXPECT_EQ(-ENOMEM, hab_chunk_take(self->heap, sizes[i], &chunk));
	}
	EXPECT_EQ(NULL, hab_alloc_aligned(self->heap, 1ul << 63, half));
	EXPECT_EQ(-EINVAL, hab_chunk_take(self->heap, 0, &chunk));
	EXPECT_NE(NULL, hab_alloc(self->heap, 0));
	EXPECT_NE(NULL, hab_alloc(self->heap, 100));
}

TEST_F(heap, a_used_up_arena_is_enomem_until_the_reset)
{
	struct hab_heap_stats stats;
	size_t total = 0;

	while (hab_alloc(self->heap, 1000))
		total += 1000;
	EXPECT_EQ(ENOMEM, errno);
	EXPECT_GT(total, 56 * MiB);
	ASSERT_EQ(0, hab_heap_reset(self->heap));
	EXPECT_NE(NULL, hab_alloc(self->heap, 1000));
	ASSERT_EQ(0, hab_heap_stats(self->heap, &stats));
	EXPECT_EQ(1, stats.resets);
}

TEST_F(heap, statistics_add_up_to_the_byte)
{
	struct hab_heap_stats stats;
	uint64_t asked = 0, accounted;
	uint32_t l;
	int i;

	for (i = 0; i < 20000; i++) {
		size_t size = 16 * (1 + i % 40);

		ASSERT_NE(NULL, hab_alloc(self->heap, size));
		asked += size;
	}
	ASSERT_EQ(0, hab_heap_stats(self->heap, &stats));
	EXPECT_EQ(asked, stats.allocated_bytes);
	EXPECT_EQ(stats.book_refills, stats.refills);
	EXPECT_EQ(stats.book_refill_bytes, stats.refill_bytes);
	EXPECT_EQ(0, stats.foreign);
	accounted = stats.chunk_bytes + stats.levels[0].free_bytes;
	for (l = 1; l <= stats.nr_levels; l++)
		accounted += stats.levels[l].waste_bytes + stats.levels[l].free_bytes;
	EXPECT_EQ(stats.arena_bytes, accounted);
}

TEST_F(heap, a_chunk_has_the_cpu_domain_and_level_that_it_is_from)
{
	struct hab_chunk chunk;
	struct hab_heap_stats stats;

	ASSERT_EQ(0, hab_chunk_take(self->heap, 100, &chunk));
	EXPECT_EQ(1, chunk.level);
	EXPECT_EQ(128, chunk.size);
	EXPECT_EQ(0, (uintptr_t)chunk.base % 64);
	EXPECT_GE(chunk.cpu, 0);
	EXPECT_GE(chunk.domain, 0);
	memset(chunk.base, 0xff, chunk.size);
	/* Above the lowest buffer's size the heap serves: the paper's Listing 1. */
	ASSERT_EQ(0, hab_chunk_take(self->heap, 2 * MiB, &chunk));
	EXPECT_EQ(0, chunk.level);
	EXPECT_EQ(2 * MiB, chunk.size);
	memset(chunk.base, 0xff, chunk.size);
	ASSERT_EQ(0, hab_heap_stats(self->heap, &stats));
	EXPECT_EQ(2 * MiB, stats.levels[0].granted_bytes);
}

#define REFILLING_TLAB 4096

struct refilling {
	struct hab_heap *heap;
	uint64_t bytes;
	bool ended;
};

/* Until the arena is full. Objects are not touched. */
static void *refill_all_the_time(void *argument)
{
	struct refilling *refilling = argument;

	while (hab_alloc(refilling->heap, 1024))
		__atomic_fetch_add(&refilling->bytes, 1024, __ATOMIC_RELEASE);
	__atomic_store_n(&refilling->ended, true, __ATOMIC_RELEASE);
	return NULL;
}

TEST_F(heap, figures_beside_refills_are_at_most_some_tlabs_off)
{
	struct refilling refilling = { .bytes = 0 };
	struct hab_heap_stats stats;
	uint64_t before, after;
	pthread_t thread;

	self->config.arena_bytes = 1024 * MiB;
	self->config.tlab_bytes = REFILLING_TLAB;
	ASSERT_EQ(0, hab_heap_create(&refilling.heap, &self->config));
	ASSERT_EQ(0, pthread_create(&thread, NULL, refill_all_the_time, &refilling));
	do {
		before = __atomic_load_n(&refilling.bytes, __ATOMIC_ACQUIRE);
		EXPECT_EQ(0, hab_heap_stats(refilling.heap, &stats));
		after = __atomic_load_n(&refilling.bytes, __ATOMIC_ACQUIRE);
		if (stats.allocated_bytes + 2 * REFILLING_TLAB < before ||
		    stats.allocated_bytes > after + 2 * REFILLING_TLAB)
			break;
	} while (!__atomic_load_n(&refilling.ended, __ATOMIC_ACQUIRE));
	EXPECT_LE(before, stats.allocated_bytes + 2 * REFILLING_TLAB);
	EXPECT_GE(after + 2 * REFILLING_TLAB, stats.allocated_bytes);
	pthread_join(thread, NULL);
	hab_heap_destroy(refilling.heap);
}

TEST_F(heap, a_chunks_base_alone_is_taken_and_counted_as_the_chunk_is)
{
	struct hab_heap_stats before, after;
	char *bases[3];
	int i;

	ASSERT_EQ(0, hab_heap_stats(self->heap, &before));
	for (i = 0; i < 3; i++) {
		bases[i] = hab_chunk_take_base(self->heap, 100);
		ASSERT_NE(NULL, bases[i]);
		EXPECT_EQ(0, (uintptr_t)bases[i] % 64);
		memset(bases[i], i, 128);
	}
	for (i = 0; i < 3; i++)
		EXPECT_EQ(i, bases[i][127]);
	ASSERT_NE(NULL, hab_chunk_take_base(self->heap, 2 * MiB));
	ASSERT_EQ(0, hab_heap_stats(self->heap, &after));
	EXPECT_EQ(4, after.chunks - before.chunks);
	EXPECT_EQ(3 * 128 + 2 * MiB, after.chunk_bytes - before.chunk_bytes);
	EXPECT_EQ(NULL, hab_chunk_take_base(self->heap, 0));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(NULL, hab_chunk_take_base(self->heap, SIZE_MAX));
	EXPECT_EQ(ENOMEM, errno);
}

/* The line @key of the mapping in which @address is, from /proc/self/smaps. */
static void read_smaps(const void *address, const char *key, char *line, int length)
{
	FILE *file = fopen("/proc/self/smaps", "r");
	bool inside = false;
	uintptr_t from, to;

	while (file && fgets(line, length, file)) {
		if (sscanf(line, "%lx-%lx ", &from, &to) == 2)
			inside = (uintptr_t)address >= from && (uintptr_t)address < to;
		else if (inside && !strncmp(line, key, strlen(key)))
			break;
	}
	if (file)
		fclose(file);
}

static bool asks_for_huge_pages_at(const void *address)
{
	char line[256] = "";

	read_smaps(address, "VmFlags:", line, sizeof(line));
	return strstr(line, " hg");
}

static bool asks_for_huge_pages(struct hab_heap *heap)
{
	return asks_for_huge_pages_at(hab_alloc(heap, 16));
}

/* 2 MiB; with larger pages 32 or 512. */
#define HUGE_PAGES_ARE_SMALL (sysconf(_SC_PAGESIZE) == 4096)

TEST_F(heap, an_arena_asks_for_huge_pages_unless_the_program_or_the_user_refuses)
{
	char line[256];
	struct hab_heap *other;
	unsigned long kib = 0;

	if (access("/sys/kernel/mm/transparent_hugepage/enabled", F_OK))
		SKIP(return, "this kernel has no huge pages for anonymous memory");
	EXPECT_EQ(HUGE_PAGES_ARE_SMALL, asks_for_huge_pages(self->heap));
	/* One object makes no more than one huge page resident. */
	read_smaps(hab_alloc(self->heap, 16), "Rss:", line, sizeof(line));
	EXPECT_EQ(1, sscanf(line, "Rss: %lu", &kib));
	if (HUGE_PAGES_ARE_SMALL)
		EXPECT_LE(kib, 2048);
	memset(hab_alloc(self->heap, 16 * MiB), 1, 16 * MiB);
	read_smaps(hab_alloc(self->heap, 16), "AnonHugePages:", line, sizeof(line));
	TH_LOG("of 16 MiB in huge pages: %s", line);
	self->config.flags |= HAB_HEAP_SMALL_PAGES;
	ASSERT_EQ(0, hab_heap_create(&other, &self->config));
	EXPECT_FALSE(asks_for_huge_pages(other));
	hab_heap_destroy(other);
	self->config.flags = variant->flags;
	setenv("HAB_HUGE_PAGES", "0", 1);
	ASSERT_EQ(0, hab_heap_create(&other, &self->config));
	EXPECT_FALSE(asks_for_huge_pages(other));
	hab_heap_destroy(other);
	unsetenv("HAB_HUGE_PAGES");
}

TEST_F(heap, the_beginning_of_a_large_arena_has_small_pages)
{
	struct hab_heap *large;

	if (access("/sys/kernel/mm/transparent_hugepage/enabled", F_OK))
		SKIP(return, "this kernel has no huge pages for anonymous memory");
	self->config.arena_bytes = 1024 * MiB;
	ASSERT_EQ(0, hab_heap_create(&large, &self->config));
	EXPECT_FALSE(asks_for_huge_pages(large));
	ASSERT_NE(NULL, hab_alloc(large, 40 * MiB));
	EXPECT_EQ(HUGE_PAGES_ARE_SMALL, asks_for_huge_pages_at(hab_alloc(large, 2 * MiB)));
	hab_heap_destroy(large);
}

/* true if a mapping of @address has that name in /proc/self/maps. */
static bool is_named(const void *address, const char *name)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	unsigned long start, end;
	bool found = false;
	char line[256];

	while (maps && !found && fgets(line, sizeof(line), maps)) {
		if (sscanf(line, "%lx-%lx", &start, &end) == 2)
			found = (uintptr_t)address - start < end - start && strstr(line, name);
	}
	if (maps)
		fclose(maps);
	return found;
}

TEST_F(heap, an_arena_is_anonymous_memory_with_the_heaps_name)
{
	struct hab_heap *named;
	char *object;

	if (prctl(PR_SET_VMA, PR_SET_VMA_ANON_NAME, NULL, 0, "hab") && errno == EINVAL)
		SKIP(return, "this kernel has no names of anonymous memory");
	self->config.name = "orders of today";
	ASSERT_EQ(0, hab_heap_create(&named, &self->config));
	object = hab_alloc(named, 100);
	ASSERT_NE(NULL, object);
	EXPECT_TRUE(is_named(object, "[anon:hab:orders of today]"));
	hab_heap_destroy(named);
}

TEST_F(heap, a_heap_has_a_backend_and_a_reason)
{
	if (!self->heap)
		SKIP(return, "no /dev/hab: module hab is not loaded here");
	EXPECT_STREQ(variant->flags & HAB_HEAP_DEVICE ? "device" : "process",
		     hab_heap_backend(self->heap));
	EXPECT_LT(10, strlen(hab_heap_backend_reason(self->heap)));
}

struct worker {
	struct hab_heap *heap;
	int rounds;
	uint64_t bytes;
	int bad;
};

static void *work(void *argument)
{
	struct worker *worker = argument;
	uint64_t *last = NULL, *object;
	int i;

	for (i = 0; i < worker->rounds; i++) {
		object = hab_alloc(worker->heap, 32);
		if (!object) {
			worker->bad++;
			break;
		}
		object[0] = (uintptr_t)last;
		object[1] = (uintptr_t)worker;
		object[2] = i;
		last = object;
		worker->bytes += 32;
	}
	/* Every object still has what this thread wrote into it. */
	for (; last; last = (uint64_t *)last[0]) {
		if (last[1] != (uintptr_t)worker || last[2] != (uint64_t)--i)
			worker->bad++;
	}
	return NULL;
}

TEST_F(heap, exits_of_threads_lose_no_object_and_no_count)
{
	struct worker workers[16];
	struct hab_heap_stats stats;
	pthread_t threads[16];
	uint64_t bytes = 0;
	int round, i;

	if (!self->heap)
		SKIP(return, "no /dev/hab: module hab is not loaded here");
	for (round = 0; round < 4; round++) {
		for (i = 0; i < 16; i++) {
			workers[i] = (struct worker){ .heap = self->heap, .rounds = 20000 };
			ASSERT_EQ(0, pthread_create(&threads[i], NULL, work, &workers[i]));
		}
		for (i = 0; i < 16; i++) {
			pthread_join(threads[i], NULL);
			EXPECT_EQ(0, workers[i].bad);
			bytes += workers[i].bytes;
		}
		ASSERT_EQ(0, hab_heap_stats(self->heap, &stats));
		EXPECT_EQ(bytes, stats.allocated_bytes);
		ASSERT_EQ(0, hab_heap_reset(self->heap));
	}
	EXPECT_EQ(0, stats.foreign);
}

TEST_F(heap, a_forked_child_reads_its_parents_objects_and_allocates_its_own)
{
	char *object = hab_alloc(self->heap, 100);
	int status;
	pid_t child;

	ASSERT_NE(NULL, object);
	strcpy(object, "parent");
	child = fork();
	ASSERT_GE(child, 0);
	if (!child) {
		struct worker worker = { .heap = self->heap, .rounds = 10000 };

		if (strcmp(object, "parent"))
			_exit(1);
		strcpy(object, "child");
		work(&worker);
		if (worker.bad)
			_exit(2);
		if (hab_heap_reset(self->heap))
			_exit(3);
		work(&worker);
		hab_heap_destroy(self->heap);
		_exit(worker.bad ? 4 : 0);
	}
	ASSERT_EQ(child, waitpid(child, &status, 0));
	EXPECT_EQ(0, status);
	EXPECT_STREQ("parent", object);
	EXPECT_NE(NULL, hab_alloc(self->heap, 1000));
}

struct bystander {
	struct hab_heap *heap;
	pthread_barrier_t has_tlab, may_go;
};

static void *stand_by(void *argument)
{
	struct bystander *bystander = argument;

	(void)!hab_alloc(bystander->heap, 64);
	pthread_barrier_wait(&bystander->has_tlab);
	pthread_barrier_wait(&bystander->may_go);
	return NULL;
}

#define TAKEN 200

/* Chunks and regions, each filled with @letter; 0 if all have it in the end. */
static int fill(struct hab_heap *heap, char letter)
{
	struct hab_region region[TAKEN];
	char *objects[2 * TAKEN];
	int i, j;

	for (i = 0; i < TAKEN; i++) {
		hab_region_open(&region[i], heap);
		objects[2 * i] = hab_alloc(heap, 1000);
		objects[2 * i + 1] = hab_region_alloc(&region[i], 20000);
		if (!objects[2 * i] || !objects[2 * i + 1])
			return 1;
		memset(objects[2 * i], letter, 1000);
		memset(objects[2 * i + 1], letter, 20000);
	}
	for (i = 0; i < 2 * TAKEN; i++) {
		for (j = 0; j < (i & 1 ? 20000 : 1000); j++) {
			if (objects[i][j] != letter)
				return 2;
		}
	}
	for (i = 0; i < TAKEN; i++)
		hab_region_close(&region[i]);
	return 0;
}

/* A child that no handler of fork() has seen. */
static pid_t clone_raw(void)
{
	struct clone_args args = { .exit_signal = SIGCHLD };

	return syscall(SYS_clone3, &args, sizeof(args));
}

static int use_as_clone(struct hab_heap *heap, const char *object, struct hab_region *open)
{
	struct hab_heap_stats stats;

	if (strcmp(object, "parent's"))
		return 10;
	/* These give memory back that is the parent's, too. */
	hab_region_close(open);
	if (fill(heap, 'c') || strcmp(object, "parent's"))
		return 11;
	if (hab_heap_reset(heap) || fill(heap, 'd') || hab_heap_stats(heap, &stats))
		return 12;
	hab_heap_destroy(heap);
	return 0;
}

TEST_F(heap, a_child_by_clone_takes_its_own_memory_and_leaves_its_parents)
{
	struct hab_heap_stats stats;
	struct hab_region region;
	char *object, *large;
	int status, round;
	pid_t child;

	object = hab_alloc(self->heap, 100);
	ASSERT_NE(NULL, object);
	strcpy(object, "parent's");
	hab_region_open(&region, self->heap);
	/* Larger than what lists keep: it goes back to the books at once. */
	large = hab_region_alloc(&region, 3 * MiB);
	ASSERT_NE(NULL, large);
	memset(large, 'l', 3 * MiB);
	for (round = 0; round < 5; round++) {
		child = clone_raw();
		ASSERT_LE(0, child);
		if (!child)
			_exit(use_as_clone(self->heap, object, &region));
		EXPECT_EQ(0, fill(self->heap, 'p'));
		ASSERT_EQ(child, waitpid(child, &status, 0));
		EXPECT_EQ(0, status);
		EXPECT_EQ(0, fill(self->heap, 'q'));
	}
	for (round = 0; round < (int)(3 * MiB); round += 4096)
		EXPECT_EQ('l', large[round]);
	EXPECT_STREQ("parent's", object);
	hab_region_close(&region);
	ASSERT_EQ(0, hab_heap_stats(self->heap, &stats));
	EXPECT_EQ(0, stats.resets);
	EXPECT_EQ(0, stats.foreign);
}

TEST_F(heap, a_forked_child_has_only_its_own_thread_in_the_heap)
{
	struct bystander bystander = { .heap = self->heap };
	pthread_t thread;
	int status;
	pid_t child;

	if (!self->heap)
		SKIP(return, "no /dev/hab: module hab is not loaded here");
	pthread_barrier_init(&bystander.has_tlab, NULL, 2);
	pthread_barrier_init(&bystander.may_go, NULL, 2);
	ASSERT_EQ(0, pthread_create(&thread, NULL, stand_by, &bystander));
	pthread_barrier_wait(&bystander.has_tlab);
	child = fork();
	ASSERT_GE(child, 0);
	if (!child) {
		struct worker worker = { .heap = self->heap, .rounds = 1000 };
		struct hab_heap_stats stats;

		/* It gets the stack and the TLS of a thread that the child does not have. */
		if (pthread_create(&thread, NULL, work, &worker) || pthread_join(thread, NULL))
			_exit(1);
		if (worker.bad || hab_heap_stats(self->heap, &stats))
			_exit(2);
		_exit(stats.allocated_bytes == worker.bytes ? 0 : 3);
	}
	ASSERT_EQ(child, waitpid(child, &status, 0));
	EXPECT_EQ(0, status);
	pthread_barrier_wait(&bystander.may_go);
	pthread_join(thread, NULL);
}

struct collected {
	uint64_t samples;
	uint64_t weight;
	struct hab_heap *heap;
	bool allocate;
};

static void collect(const struct hab_sample *sample, void *context)
{
	struct collected *collected = context;

	collected->samples++;
	collected->weight += sample->weight;
	memset(sample->address, 0x5a, sample->size);
	if (collected->allocate)
		(void)!hab_alloc(collected->heap, 64);
}

TEST_F(heap, samples_have_the_mean_interval_and_their_weights_add_up)
{
	struct collected collected = { .heap = self->heap };
	uint64_t bytes = 0;
	int i;

	ASSERT_EQ(-EINVAL, hab_set_sampling_interval(self->heap, -1));
	ASSERT_EQ(0, hab_set_sampling_interval(self->heap, 16 * KiB));
	ASSERT_EQ(0, hab_set_sample_handler(self->heap, collect, &collected));
	for (i = 0; i < 600000; i++) {
		if (!hab_alloc(self->heap, 64)) {
			ASSERT_EQ(0, hab_heap_reset(self->heap));
			ASSERT_NE(NULL, hab_alloc(self->heap, 64));
		}
		bytes += 64;
	}
	/* 2,344 samples are expected; 5.33 standard deviations are 258. */
	EXPECT_GT(collected.samples, bytes / (16 * KiB) - 258);
	EXPECT_LT(collected.samples, bytes / (16 * KiB) + 258);
	EXPECT_LE(collected.weight, bytes);
	EXPECT_GT(collected.weight, bytes - 16 * KiB * 40);
	hab_set_sample_handler(self->heap, NULL, NULL);
}

TEST_F(heap, interval_0_samples_every_allocation_and_a_handler_may_allocate)
{
	struct collected collected = { .heap = self->heap, .allocate = true };
	int i;

	ASSERT_EQ(0, hab_set_sampling_interval(self->heap, 0));
	ASSERT_EQ(0, hab_set_sample_handler(self->heap, collect, &collected));
	hab_heap_reset(self->heap);
	for (i = 0; i < 1000; i++)
		ASSERT_NE(NULL, hab_alloc(self->heap, 48));
	EXPECT_EQ(1000, collected.samples);
	EXPECT_EQ(48000, collected.weight);
	hab_set_sample_handler(self->heap, NULL, NULL);
	for (i = 0; i < 1000; i++)
		ASSERT_NE(NULL, hab_alloc(self->heap, 48));
	EXPECT_LE(collected.samples, 1001);
}

/* Each handler has a context of its own. */
static struct whose {
	int handler;
	unsigned int calls, wrong;
} whose_contexts[] = { { .handler = 1 }, { .handler = 2 } };

static bool is_changing, stop_changing;

static void handle_one(const struct hab_sample *sample, void *context)
{
	struct whose *whose = context;

	(void)sample;
	whose->calls++;
	whose->wrong += whose->handler != 1;
}

static void handle_two(const struct hab_sample *sample, void *context)
{
	struct whose *whose = context;

	(void)sample;
	whose->calls++;
	whose->wrong += whose->handler != 2;
}

static void *change_handlers(void *context)
{
	struct hab_heap *heap = context;
	int i;

	for (i = 0; !__atomic_load_n(&stop_changing, __ATOMIC_RELAXED); i = !i) {
		hab_set_sample_handler(heap, i ? handle_one : handle_two, &whose_contexts[!i]);
		__atomic_store_n(&is_changing, true, __ATOMIC_RELAXED);
	}
	return NULL;
}

TEST_F(heap, a_handler_is_called_with_its_own_context)
{
	pthread_t thread;
	int i;

	ASSERT_EQ(0, hab_set_sampling_interval(self->heap, 0));
	ASSERT_EQ(0, pthread_create(&thread, NULL, change_handlers, self->heap));
	while (!__atomic_load_n(&is_changing, __ATOMIC_RELAXED))
		sched_yield();
	for (i = 0; i < 300000; i++)
		if (!hab_alloc(self->heap, 48))
			hab_heap_reset(self->heap);
	__atomic_store_n(&stop_changing, true, __ATOMIC_RELAXED);
	ASSERT_EQ(0, pthread_join(thread, NULL));
	hab_set_sample_handler(self->heap, NULL, NULL);
	EXPECT_LT(100000, whose_contexts[0].calls + whose_contexts[1].calls);
	EXPECT_EQ(0, whose_contexts[0].wrong);
	EXPECT_EQ(0, whose_contexts[1].wrong);
}

/* As daemon programs do, which then open their log. */
static int close_all_and_open(struct hab_heap_config *config)
{
	struct hab_heap *heap, *later;
	int before, fd, i;

	if (close_range(3, ~0u, 0) || hab_heap_create(&heap, config) || !hab_alloc(heap, 100))
		return 1;
	before = open("/dev/null", O_RDWR | O_CLOEXEC);
	/* This one gets the descriptor that the first one had. */
	if (close_range(3, ~0u, 0) || hab_heap_create(&later, config))
		return 2;
	while ((fd = open("/dev/null", O_RDWR | O_CLOEXEC)) < before)
		if (fd < 0)
			return 3;
	errno = 0;
	while (hab_alloc(heap, 4000))
		;
	if (errno != ENOMEM)
		return 4;
	hab_heap_destroy(heap);
	/* Those of the program and of the other heap are all there. */
	for (fd = 3; fd <= before; fd++)
		if (fcntl(fd, F_GETFD) < 0)
			return 5;
	for (i = 0; i < 1000; i++)
		if (!hab_alloc(later, 8000))
			return 6;
	return 0;
}

TEST_F(heap, a_program_that_closes_all_descriptors_keeps_those_that_it_opens_then)
{
	pid_t child = fork();
	int status;

	if (!child) {
		hab_heap_destroy(self->heap);
		_exit(close_all_and_open(&self->config));
	}
	ASSERT_EQ(child, waitpid(child, &status, 0));
	EXPECT_EQ(0, status);
}

TEST_F(heap, a_hundred_heaps_at_once_stay_separate)
{
	struct hab_heap *heaps[100];
	uint64_t *objects[100];
	int i, round;

	self->config.arena_bytes = 1 * MiB;
	self->config.levels = "clab=64K@cpu";
	for (i = 0; i < 100; i++)
		ASSERT_EQ(0, hab_heap_create(&heaps[i], &self->config));
	for (round = 0; round < 50; round++) {
		for (i = 0; i < 100; i++) {
			objects[i] = hab_alloc(heaps[i], 64);
			ASSERT_NE(NULL, objects[i]);
			objects[i][0] = i;
		}
		for (i = 0; i < 100; i++)
			ASSERT_EQ((uint64_t)i, objects[i][0]);
	}
	for (i = 0; i < 100; i++)
		hab_heap_destroy(heaps[i]);
	/* The slots are free again, and the TLABs of the old heaps are gone. */
	ASSERT_EQ(0, hab_heap_create(&heaps[0], &self->config));
	objects[0] = hab_alloc(heaps[0], 64);
	ASSERT_NE(NULL, objects[0]);
	memset(objects[0], 1, 64);
	hab_heap_destroy(heaps[0]);
}

TEST_F(heap, a_reset_ends_every_tlab)
{
	struct hab_heap_stats stats;

	ASSERT_NE(NULL, hab_alloc(self->heap, 64));
	ASSERT_EQ(0, hab_heap_reset(self->heap));
	ASSERT_NE(NULL, hab_alloc(self->heap, 64));
	ASSERT_EQ(0, hab_heap_stats(self->heap, &stats));
	EXPECT_EQ(2, stats.tlab_refills);
	EXPECT_EQ(128, stats.allocated_bytes);
}

static pthread_key_t late_key;
static struct hab_heap *late_heap;

/* Made after the library's key, so it runs after the library's destructor. */
static void allocate_late(void *worker)
{
	struct hab_chunk chunk;

	((struct worker *)worker)->bad += hab_chunk_take(late_heap, 64, &chunk) != 0;
	((struct worker *)worker)->bad += !hab_alloc(late_heap, 64);
}

static void *set_late_key(void *arg)
{
	struct hab_chunk chunk;

	pthread_setspecific(late_key, arg);
	((struct worker *)arg)->bad += hab_chunk_take(late_heap, 64, &chunk) != 0;
	return NULL;
}

TEST_F(heap, destructors_that_run_after_the_librarys_may_allocate)
{
	struct hab_heap_stats stats;
	struct worker worker = { 0 };
	pthread_t thread;

	if (!self->heap)
		SKIP(return, "no /dev/hab: module hab is not loaded here");
	late_heap = self->heap;
	ASSERT_EQ(0, pthread_key_create(&late_key, allocate_late));
	ASSERT_EQ(0, pthread_create(&thread, NULL, set_late_key, &worker));
	pthread_join(thread, NULL);
	pthread_key_delete(late_key);
	EXPECT_EQ(0, worker.bad);
	ASSERT_EQ(0, hab_heap_stats(self->heap, &stats));
	/* Two chunks, and a TLAB. */
	EXPECT_EQ(3, stats.chunks);
}

TEST_F(heap, a_heap_in_the_slot_of_a_destroyed_one_counts_its_own_chunks)
{
	struct hab_heap_stats stats;
	struct hab_chunk chunk;

	if (!self->heap)
		SKIP(return, "no /dev/hab: module hab is not loaded here");
	ASSERT_EQ(0, hab_chunk_take(self->heap, 64, &chunk));
	hab_heap_destroy(self->heap);
	self->heap = NULL;
	ASSERT_EQ(0, hab_heap_create(&self->heap, &self->config));
	ASSERT_EQ(0, hab_chunk_take(self->heap, 64, &chunk));
	ASSERT_EQ(0, hab_chunk_take(self->heap, 64, &chunk));
	ASSERT_EQ(0, hab_heap_stats(self->heap, &stats));
	EXPECT_EQ(2, stats.chunks);
	EXPECT_EQ(128, stats.chunk_bytes);
}

/* 0: a chunk and a region's chunk were taken. */
static int take_stepped(struct hab_heap *heap)
{
	struct hab_region region;
	struct hab_chunk chunk;

	if (hab_chunk_take(heap, 64 * KiB, &chunk))
		return 1;
	*(char *)chunk.base = 1;
	hab_region_open(&region, heap);
	if (!hab_region_alloc(&region, 100))
		return 2;
	hab_region_close(&region);
	return 0;
}

#define SLOW_STEPS    200
#define SLOW_STEPS_NS 40000000ull
#define SLOW	      (-1)

/*
 * Steps a child to its end: its wait status, or SLOW on a machine where a step takes so long that
 * the C library never has read the clock before the next tick of it.
 */
static int step_to_end(pid_t child)
{
	uint64_t began = hab_clock_ns();
	int status, steps = 0;

	while (waitpid(child, &status, 0) == child && WIFSTOPPED(status)) {
		if (++steps == SLOW_STEPS && hab_clock_ns() - began > SLOW_STEPS_NS) {
			kill(child, SIGKILL);
			waitpid(child, &status, 0);
			return SLOW;
		}
		ptrace(PTRACE_SINGLESTEP, child, NULL, NULL);
	}
	return status;
}

/* Each step interrupts a section, so none ever ends. Test-all: it needs a CPU for itself. */
TEST_F_TIMEOUT(heap, a_thread_that_is_stepped_instruction_by_instruction_gets_memory, 120)
{
	pid_t child;
	int status;

	/* All that is made at the first use is there. */
	ASSERT_EQ(0, take_stepped(self->heap));
	child = fork();
	if (!child) {
		ptrace(PTRACE_TRACEME, 0, NULL, NULL);
		hab_heap_destroy(self->heap);
		if (hab_heap_create(&self->heap, &self->config))
			_exit(3);
		raise(SIGSTOP);
		_exit(take_stepped(self->heap));
	}
	status = step_to_end(child);
	if (status == SLOW)
		SKIP(return, "200 steps take more than 40 ms here");
	EXPECT_EQ(0, status);
}

TEST(a_heap_works_without_restartable_sequences)
{
	struct worker worker = { .rounds = 5000 };
	struct hab_heap_stats stats;
	pid_t child = fork();
	int status;

	/* The choice is made once per process, so in a new one. */
	if (!child) {
		setenv("HAB_RSEQ", "0", 1);
		if (hab_heap_create(&worker.heap, NULL))
			_exit(1);
		if (!strstr(hab_heap_backend_reason(worker.heap), "no restartable"))
			_exit(2);
		work(&worker);
		if (worker.bad || hab_heap_stats(worker.heap, &stats) || stats.foreign)
			_exit(3);
		hab_heap_destroy(worker.heap);
		_exit(0);
	}
	ASSERT_EQ(child, waitpid(child, &status, 0));
	EXPECT_EQ(0, WEXITSTATUS(status));
}

TEST_HARNESS_MAIN
