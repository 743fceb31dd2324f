// SPDX-License-Identifier: GPL-2.0-only
/*
 * The tolerant heaps of the experiments (bench/programs/tolerant.h).
 */
#include <pthread.h>
#include <stdlib.h>

#include "bench/programs/tolerant.h"
#include "kselftest_harness.h"
#include "lib/hab.h"

#define KiB	(1ul << 10)
#define MiB	(1ul << 20)
#define THREADS 8

static int create(struct hab_heap **heap, const char *levels, size_t tlab, bool sections)
{
	struct hab_heap_config config;

	hab_heap_config_init(&config);
	config.arena_bytes = 64 * MiB;
	config.levels = levels;
	config.tlab_bytes = tlab;
	return tolerant_create(heap, &config, sections);
}

/* Objects of random sizes until the heap is full, in a list, each with its own mark. */
static void *fill(void *heap)
{
	static unsigned int threads;
	unsigned int seed = __atomic_add_fetch(&threads, 1, __ATOMIC_RELAXED);
	uintptr_t *object, *end, bad = 0;
	void *last = NULL;
	size_t size;

	for (;;) {
		size = 24 + rand_r(&seed) % (rand_r(&seed) % 128 ? 500 : 100000);
		object = hab_alloc(heap, size);
		if (!object)
			break;
		end = object + size / 8 - 1;
		object[0] = (uintptr_t)last;
		object[1] = size;
		*end = (uintptr_t)object;
		last = object;
	}
	for (object = last; object; object = (uintptr_t *)object[0])
		bad += object[object[1] / 8 - 1] != (uintptr_t)object;
	return (void *)bad;
}

FIXTURE(tolerant)
{
	struct hab_heap *heap;
};

FIXTURE_VARIANT(tolerant)
{
	const char *levels;
	size_t tlab_bytes;
	bool sections;
};

FIXTURE_VARIANT_ADD(tolerant, plab){ "plab=1M@package", 4 * KiB, false };
FIXTURE_VARIANT_ADD(tolerant, clab_no_tlabs){ "clab=256K@cpu", HAB_TLAB_NONE, false };
FIXTURE_VARIANT_ADD(tolerant, sections_plab){ "plab=1M@package", 4 * KiB, true };

FIXTURE_SETUP(tolerant)
{
	ASSERT_EQ(0, create(&self->heap, variant->levels, variant->tlab_bytes, variant->sections));
}

FIXTURE_TEARDOWN(tolerant)
{
	hab_heap_destroy(self->heap);
}

TEST_F(tolerant, objects_are_disjoint_and_no_byte_is_lost)
{
	struct hab_heap_stats stats;
	pthread_t threads[THREADS];
	uint64_t sum;
	void *bad;
	int i;

	for (i = 0; i < THREADS; i++)
		ASSERT_EQ(0, pthread_create(&threads[i], NULL, fill, self->heap));
	for (i = 0; i < THREADS; i++) {
		pthread_join(threads[i], &bad);
		EXPECT_EQ(NULL, bad);
	}
	ASSERT_EQ(0, hab_heap_stats(self->heap, &stats));
	sum = stats.chunk_bytes;
	for (i = 0; i <= (int)stats.nr_levels; i++)
		sum += stats.levels[i].free_bytes + stats.levels[i].waste_bytes;
	EXPECT_EQ(64 * MiB, sum);
	EXPECT_EQ(0, stats.returned_bytes);
	EXPECT_EQ(stats.book_refills, stats.refills);
	EXPECT_EQ(stats.book_refill_bytes, stats.refill_bytes);
	/* Chunks from buffers are compared with the hardware's CPU number. */
	EXPECT_EQ(stats.chunks - stats.levels[0].refills, stats.verified);
	EXPECT_LE(stats.foreign, stats.verified);
	ASSERT_EQ(0, hab_heap_reset(self->heap));
	EXPECT_NE(NULL, hab_alloc(self->heap, 100));
}

TEST(several_levels_are_einval)
{
	struct hab_heap *heap;

	EXPECT_EQ(-EINVAL, create(&heap, "plab=1M@package,clab=64K@cpu", 4 * KiB, false));
	EXPECT_EQ(NULL, heap);
}

TEST_HARNESS_MAIN
