// SPDX-License-Identifier: GPL-2.0-only
/*
 * Regions on each layout of levels, in one thread or a few; region_stress_test.c has many.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "lib/alloc/lists.h"
#include "lib/heap.h"
#include "lib/region.h"
#include "selftests/lib/accounted.h"
#include "selftests/lib/roll.h"

#define ARENA (8ull << 20)

static struct hab_heap *make_heap(const char *levels, size_t arena)
{
	struct hab_heap_config config;
	struct hab_heap *heap = NULL;

	hab_heap_config_init(&config);
	config.arena_bytes = arena;
	config.levels = levels;
	config.flags = HAB_HEAP_VERIFY | (access("/dev/hab", F_OK) ? HAB_HEAP_PROCESS : 0);
	return hab_heap_create(&heap, &config) ? NULL : heap;
}

FIXTURE(region)
{
	struct hab_heap *heap;
	struct hab_region region;
};

FIXTURE_VARIANT(region)
{
	const char *levels;
};

FIXTURE_VARIANT_ADD(region, clab){ "clab=512K@cpu" };
FIXTURE_VARIANT_ADD(region, plab){ "plab=1M@package" };
FIXTURE_VARIANT_ADD(region, plab_clab){ "plab=1M@package,clab=64K@cpu" };
FIXTURE_VARIANT_ADD(region, small_clab){ "plab=256K@global,clab=8K@cpu" };
FIXTURE_VARIANT_ADD(region, none){ "none" };

FIXTURE_SETUP(region)
{
	seed = 1;
	self->heap = make_heap(variant->levels, ARENA);
	ASSERT_NE(NULL, self->heap);
	ASSERT_EQ(0, hab_region_open(&self->region, self->heap));
}

FIXTURE_TEARDOWN(region)
{
	hab_heap_destroy(self->heap);
}

TEST_F(region, objects_are_aligned_and_keep_their_bytes_until_the_region_is_closed)
{
	struct {
		unsigned char *bytes;
		size_t size;
	} objects[400];
	int i, round;
	size_t b;

	for (round = 0; round < 20; round++) {
		for (i = 0; i < 400; i++) {
			size_t size = roll() % (i % 50 ? 300 : 60000);

			objects[i].size = size;
			objects[i].bytes = hab_region_alloc(&self->region, size);
			ASSERT_NE(NULL, objects[i].bytes);
			ASSERT_EQ(0, (uintptr_t)objects[i].bytes % 16);
			memset(objects[i].bytes, i, size);
		}
		for (i = 0; i < 400; i++) {
			for (b = 0; b < objects[i].size; b++)
				ASSERT_EQ((unsigned char)i, objects[i].bytes[b]);
		}
		hab_region_close(&self->region);
	}
}

TEST_F(region, a_closed_regions_chunks_serve_the_next_region)
{
	struct hab_heap_stats before, after;
	int i, j;

	for (j = 0; j < 1000; j++) {
		for (i = 0; i < 1000; i++)
			ASSERT_NE(NULL, hab_region_alloc(&self->region, 100));
		hab_region_close(&self->region);
		if (j == 20)
			ASSERT_EQ(0, hab_heap_stats(self->heap, &before));
	}
	ASSERT_EQ(0, hab_heap_stats(self->heap, &after));
	/* A region has 100 kB; the thread may have moved to another CPU. */
	EXPECT_GE(before.chunk_bytes + (1 << 20), after.chunk_bytes);
	EXPECT_EQ(1000ull * 1000 * 112, after.region_bytes);
	EXPECT_EQ(0, after.open_chunks);
	EXPECT_EQ(0, after.foreign);
	/* Without sections a chunk is the heap's, and no domain's. */
	if (!getenv("HAB_RSEQ"))
		EXPECT_LT(0, after.verified);
}

TEST_F(region, an_open_region_takes_no_memory)
{
	struct hab_heap_stats stats;
	char *nothing = hab_region_alloc(&self->region, 0);

	EXPECT_NE(NULL, nothing);
	ASSERT_EQ(0, hab_heap_stats(self->heap, &stats));
	EXPECT_EQ(0, stats.chunks);
	hab_region_close(&self->region);
	EXPECT_EQ(-EINVAL, hab_region_open(NULL, self->heap));
	EXPECT_EQ(-EINVAL, hab_region_open(&self->region, NULL));
}

TEST_F(region, sizes_that_no_arena_holds_are_refused)
{
	static const size_t sizes[] = { SIZE_MAX, SIZE_MAX - 15, SIZE_MAX / 2, ARENA + 1, ARENA };
	size_t i;

	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		errno = 0;
		EXPECT_EQ(NULL, hab_region_alloc(&self->region, sizes[i]));
		EXPECT_EQ(ENOMEM, errno);
	}
	EXPECT_NE(NULL, hab_region_alloc(&self->region, ARENA / 2));
	hab_region_close(&self->region);
	EXPECT_EQ(ARENA, accounted(self->heap));
}

TEST_F(region, nested_regions_are_closed_in_any_order)
{
	struct hab_region inner[8];
	int i, j;

	for (i = 0; i < 8; i++) {
		ASSERT_EQ(0, hab_region_open(&inner[i], self->heap));
		for (j = 0; j < 500; j++) {
			ASSERT_NE(NULL, hab_region_alloc(&inner[i], 1 + roll() % 200));
			ASSERT_NE(NULL, hab_region_alloc(&self->region, 1 + roll() % 200));
		}
	}
	for (i = 0; i < 8; i++)
		hab_region_close(&inner[i * 3 % 8]);
	hab_region_close(&self->region);
	EXPECT_EQ(ARENA, accounted(self->heap));
}

TEST_F(region, a_full_heap_gives_again_what_was_closed_whatever_its_sizes_were)
{
	static const size_t sizes[] = { 100, 4000, 20000, 100000, 3000000, 50 };
	uint64_t bytes;
	size_t i;

	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		for (bytes = 0; hab_region_alloc(&self->region, sizes[i]);)
			bytes += sizes[i];
		ASSERT_EQ(ENOMEM, errno);
		TH_LOG("objects of %zu: %lu bytes", sizes[i], (long)bytes);
		/* An object of 100000 takes 114688: a CLAB has four, and room for half of one. */
		EXPECT_LT(ARENA * 70 / 100, bytes);
		hab_region_close(&self->region);
		EXPECT_EQ(ARENA, accounted(self->heap));
	}
}

TEST_F(region, after_any_history_99_percent_of_the_arena_can_be_handed_out_again)
{
	struct hab_region regions[40];
	struct hab_chunk chunk;
	uint64_t bytes = 0;
	int i, step;

	for (i = 0; i < 40; i++)
		ASSERT_EQ(0, hab_region_open(&regions[i], self->heap));
	for (step = 0; step < 200000; step++) {
		i = roll() % 40;
		if (!hab_region_alloc(&regions[i], roll() % (roll() % 200 ? 500 : 300000)) ||
		    roll() % 2000 == 0)
			hab_region_close(&regions[i]);
	}
	for (i = 0; i < 40; i++)
		hab_region_close(&regions[i]);
	while (!hab_chunk_take(self->heap, 4096, &chunk))
		bytes += chunk.size;
	TH_LOG("%.2f %% of the arena", 100.0 * bytes / ARENA);
	EXPECT_LE(ARENA * 99 / 100, bytes);
}

TEST_F(region, objects_in_tlabs_use_what_regions_have_closed)
{
	uint64_t bytes = 0;

	while (hab_region_alloc(&self->region, 1000))
		;
	hab_region_close(&self->region);
	while (hab_alloc(self->heap, 1000))
		bytes += 1008;
	EXPECT_LT(ARENA * 95 / 100, bytes);
}

TEST_F(region, a_reset_ends_open_regions)
{
	struct hab_region other;
	int i;

	ASSERT_EQ(0, hab_region_open(&other, self->heap));
	for (i = 0; i < 2000; i++) {
		ASSERT_NE(NULL, hab_region_alloc(&self->region, 100));
		ASSERT_NE(NULL, hab_region_alloc(&other, 100));
	}
	hab_region_close(&other);
	ASSERT_EQ(0, hab_heap_reset(self->heap));
	EXPECT_EQ(ARENA, accounted(self->heap));
	hab_region_close(&self->region);
	EXPECT_EQ(ARENA, accounted(self->heap));
	ASSERT_NE(NULL, hab_region_alloc(&self->region, 100));
	hab_region_close(&self->region);
	EXPECT_EQ(ARENA, accounted(self->heap));
}

static void *close_it(void *region)
{
	hab_region_close(region);
	return NULL;
}

TEST_F(region, a_region_is_closed_by_a_thread_that_never_used_the_heap)
{
	pthread_t thread;
	int i, j;

	for (j = 0; j < 50; j++) {
		for (i = 0; i < 2000; i++)
			ASSERT_NE(NULL, hab_region_alloc(&self->region, 100));
		pthread_create(&thread, NULL, close_it, &self->region);
		pthread_join(thread, NULL);
		EXPECT_EQ(ARENA, accounted(self->heap));
	}
}

/* In a forked child: the status. */
static int use_in_child(struct hab_heap *heap, struct hab_region *region, char *object)
{
	struct hab_region own;
	int i;

	for (i = 0; i < 100; i++) {
		if (object[i] != 'p')
			return 1;
		object[i] = 'c';
	}
	hab_region_open(&own, heap);
	for (i = 0; i < 10000; i++) {
		char *mine = hab_region_alloc(i % 2 ? &own : region, 100);

		if (!mine)
			return 2;
		memset(mine, 'x', 100);
	}
	for (i = 0; i < 100; i++)
		if (object[i] != 'c')
			return 3;
	hab_region_close(region);
	hab_region_close(&own);
	for (i = 0; i < 10000; i++)
		if (!hab_region_alloc(&own, 100))
			return 4;
	hab_region_close(&own);
	hab_heap_destroy(heap);
	return 0;
}

TEST_F(region, parent_and_child_have_their_own_regions_after_a_fork)
{
	char *object = hab_region_alloc(&self->region, 100);
	struct hab_region before;
	int i, status;
	pid_t child;

	hab_region_open(&before, self->heap);
	for (i = 0; i < 5000; i++)
		ASSERT_NE(NULL, hab_region_alloc(&before, 100));
	hab_region_close(&before);
	memset(object, 'p', 100);
	child = fork();
	if (!child)
		_exit(use_in_child(self->heap, &self->region, object));
	ASSERT_EQ(child, waitpid(child, &status, 0));
	EXPECT_EQ(0, status);
	for (i = 0; i < 100; i++)
		ASSERT_EQ('p', object[i]);
	hab_region_close(&self->region);
	EXPECT_EQ(ARENA, accounted(self->heap));
}

struct seen {
	struct hab_region *region;
	uint64_t weight;
	uint64_t samples;
};

/* Allocates in the same region. */
static void on_sample(const struct hab_sample *sample, void *context)
{
	struct seen *seen = context;
	char *mine = hab_region_alloc(seen->region, 24);

	seen->weight += sample->weight;
	seen->samples++;
	memset(mine, 0xaa, 24);
	memset(sample->address, 0x55, sample->size);
}

TEST_F(region, samples_weigh_as_much_as_was_allocated)
{
	struct seen seen = { .region = &self->region };
	uint64_t bytes = 0;
	int i, j;

	hab_set_sampling_interval(self->heap, 16 << 10);
	hab_set_sample_handler(self->heap, on_sample, &seen);
	for (j = 0; j < 400; j++) {
		for (i = 0; i < 500; i++) {
			size_t size = roll() % (i % 100 ? 200 : 40000);

			ASSERT_NE(NULL, hab_region_alloc(&self->region, size));
			bytes += (size + 15) & ~15ul;
		}
		hab_region_close(&self->region);
	}
	TH_LOG("%lu bytes, %lu samples of %lu", (long)bytes, (long)seen.samples, (long)seen.weight);
	EXPECT_LT(bytes * 97 / 100, seen.weight);
	EXPECT_GE(bytes, seen.weight);
	EXPECT_LT(bytes / (16 << 10) * 60 / 100, seen.samples);
	EXPECT_GT(bytes / (16 << 10) * 120 / 100, seen.samples);
}

/* Alone in its function, so that objdump counts it. */
__attribute__((noinline, used)) void *region_alloc_alone(struct hab_region *region, size_t size)
{
	return hab_region_alloc(region, size);
}

/* Of each size that the end of a buffer may have. */
TEST(the_end_of_a_buffer_serves_regions_and_then_only_objects_that_fit)
{
	const size_t buffer = 512 << 10;
	struct hab_region first, second;
	const struct hab_open_region *inside = (struct hab_open_region *)&second;
	const struct hab_free_chunk *chunk;
	struct hab_chunk most;
	struct hab_heap *heap;
	cpu_set_t one, all;
	uintptr_t object;
	size_t end, size;

	sched_getaffinity(0, sizeof(all), &all);
	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	sched_setaffinity(0, sizeof(one), &one);
	for (end = 4096; end < 40000; end += 192) {
		heap = make_heap("clab=512K@cpu", ARENA);
		ASSERT_NE(NULL, heap);
		ASSERT_EQ(0, hab_chunk_take(heap, buffer - end, &most));
		hab_region_open(&first, heap);
		hab_region_open(&second, heap);
		ASSERT_NE(NULL, hab_region_alloc(&first, 5000));
		hab_region_close(&first);
		for (size = 8000; size < 40000; size += 500) {
			object = (uintptr_t)hab_region_alloc(&second, size);
			ASSERT_NE(0, object);
			chunk = inside->large;
			if (!chunk || object != (uintptr_t)(chunk + 1))
				chunk = inside->chunks;
			EXPECT_LE(object + size, (uintptr_t)chunk + chunk->bytes);
			hab_region_close(&second);
		}
		hab_heap_destroy(heap);
	}
	sched_setaffinity(0, sizeof(all), &all);
}

/* arm64 adds no operand from memory. */
#ifdef __aarch64__
#define INSTRUCTIONS 9
#else
#define INSTRUCTIONS 8
#endif

TEST(an_allocation_has_at_most_8_or_9_instructions_and_no_call)
{
	char command[200], line[200];
	int instructions = 0;
	FILE *pipe;

#ifdef __SANITIZE_ADDRESS__
	SKIP(return, "the sanitizer adds instructions");
#endif
	snprintf(command, sizeof(command),
		 "objdump -d --no-show-raw-insn --disassemble=region_alloc_alone /proc/%d/exe",
		 getpid());
	pipe = popen(command, "r");
	ASSERT_NE(NULL, pipe);
	/* Up to the return; what follows is the slow path. */
	while (fgets(line, sizeof(line), pipe)) {
		if (!strchr(line, '\t'))
			continue;
		instructions++;
		EXPECT_EQ(NULL, strstr(line, "call"));
		EXPECT_EQ(NULL, strstr(line, "\tbl"));
		if (strstr(line, "ret"))
			break;
	}
	pclose(pipe);
	if (!instructions)
		SKIP(return, "no objdump here");
	EXPECT_GE(INSTRUCTIONS, instructions);
}

TEST_HARNESS_MAIN
