// SPDX-License-Identifier: GPL-2.0-only
/*
 * Samples by bytes, as the library reports them at otel_memory:alloc: each way to allocate is
 * sampled once, with the probability 1 - exp(-bytes / interval), whatever else the thread
 * allocates. The truth is what the test itself allocates. That the interval may change is in
 * draws_test.c.
 */
#include <math.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "lib/hab.h"
#include "probes.h"

/* Arguments of the probe. */
enum { SIZE = 1, STANDS_FOR = 2 };

#define INTERVAL 32768.0

enum way {
	ALLOC_16,
	ALLOC_128,
	ALLOC_1024,
	ALLOC_LARGE,
	ALIGNED,
	CHUNK_SMALL,
	CHUNK_BASE,
	CHUNK_LARGE,
	WAYS
};

static const size_t asked[WAYS] = { 16, 128, 1024, 40000, 336 + 4096 - 16, 8192, 8192, 100032 };

/* The bytes that each takes: in a TLAB and in a chunk of its own the same. */
static const double taken[WAYS] = { 16, 128, 1024, 40000, 336 + 4096 - 16, 8192, 8192, 100032 };

static int take(struct hab_heap *heap, size_t size)
{
	struct hab_chunk chunk;

	return hab_chunk_take(heap, size, &chunk);
}

static int allocate(struct hab_heap *heap, enum way way)
{
	switch (way) {
	case ALLOC_16:
		return !hab_alloc(heap, 16);
	case ALLOC_128:
		return !hab_alloc(heap, 128);
	case ALLOC_1024:
		return !hab_alloc(heap, 1024);
	case ALLOC_LARGE:
		return !hab_alloc(heap, 40000);
	case ALIGNED:
		return !hab_alloc_aligned(heap, 4096, 336);
	case CHUNK_SMALL:
		return take(heap, 8192);
	case CHUNK_BASE:
		return !hab_chunk_take_base(heap, 8192);
	default:
		return take(heap, 100000);
	}
}

FIXTURE(samples)
{
	struct probes probes;
	struct probe *alloc;
	struct hab_heap *heap;
};

FIXTURE_SETUP(samples)
{
	struct hab_heap_config config;

#ifndef __x86_64__
	SKIP(return, "breakpoints are made for x86-64 only");
#endif
	ASSERT_TRUE(probes_trace(&self->probes));
	self->alloc = probes_find(&self->probes, "otel_memory:alloc");
	ASSERT_NE(NULL, self->alloc);
	hab_heap_config_init(&config);
	config.flags = HAB_HEAP_PROCESS;
	config.arena_bytes = 256 << 20;
	config.tlab_bytes = 32 << 10;
	config.levels = "clab=1M@cpu";
	ASSERT_EQ(0, hab_heap_create(&self->heap, &config));
}

FIXTURE_TEARDOWN(samples)
{
	hab_heap_destroy(self->heap);
}

struct sums {
	double sampled, expected, variance;
};

/* Allocates each way in turn. */
static bool run(FIXTURE_DATA(samples) * self, int rounds, struct sums sums[WAYS])
{
	uint64_t hits;
	int i, way;
	double p;

	for (i = 0; i < rounds; i++) {
		for (way = 0; way < WAYS; way++) {
			hits = self->alloc->hits;
			if (allocate(self->heap, way) &&
			    (hab_heap_reset(self->heap) || allocate(self->heap, way)))
				return false;
			p = -expm1(-taken[way] / INTERVAL);
			sums[way].expected += p;
			sums[way].variance += p * (1 - p);
			if (self->alloc->hits == hits)
				continue;
			if (self->alloc->hits != hits + 1 ||
			    self->alloc->last[SIZE] != asked[way]) {
				fprintf(stderr, "way %d: %lu samples, one of %lu bytes\n", way,
					self->alloc->hits - hits, self->alloc->last[SIZE]);
				return false;
			}
			sums[way].sampled++;
		}
	}
	return true;
}

TEST_F(samples, each_way_to_allocate_is_sampled_once_with_the_probability_of_its_bytes)
{
	struct sums sums[WAYS] = { 0 };
	double error;
	int way;

	ASSERT_EQ(0, hab_set_sampling_interval(self->heap, (int64_t)INTERVAL));
	probes_listen(self->alloc);
	ASSERT_TRUE(run(self, 40000, sums));
	for (way = 0; way < WAYS; way++) {
		error = (sums[way].sampled - sums[way].expected) / sqrt(sums[way].variance + 1);
		EXPECT_LT(fabs(error), HAB_STANDARD_ERRORS)
		TH_LOG("%.0f bytes: %.0f samples, expected %.0f", taken[way], sums[way].sampled,
		       sums[way].expected);
	}
}

/* Samples of @objects of 64 bytes each, from the start of a TLAB. */
static uint64_t samples_of(FIXTURE_DATA(samples) * self, int objects)
{
	uint64_t before = self->alloc->hits;
	int i;

	for (i = 0; i < objects; i++)
		if (!hab_alloc(self->heap, 64))
			return ~0ull;
	return self->alloc->hits - before;
}

/* @sampled of @objects of 64 bytes, with an interval of 16 KiB. */
static bool is_expected(uint64_t sampled, double objects)
{
	double p = -expm1(-64.0 / 16384), error = (double)sampled - objects * p;

	return fabs(error) < HAB_STANDARD_ERRORS * sqrt(objects * p * (1 - p));
}

TEST_F(samples, objects_before_a_reset_are_sampled_as_all_others)
{
	uint64_t sampled = 0;
	int i;

	ASSERT_EQ(0, hab_set_sampling_interval(self->heap, 16384));
	probes_listen(self->alloc);
	for (i = 0; i < 20000; i++) {
		sampled += samples_of(self, 20);
		ASSERT_EQ(0, hab_heap_reset(self->heap));
	}
	TH_LOG("%lu samples", sampled);
	EXPECT_TRUE(is_expected(sampled, 20000.0 * 20));
}

static void *run_thread(void *context)
{
	return (void *)samples_of(context, 100);
}

TEST_F(samples, short_threads_draw_independently)
{
	uint64_t sampled = 0;
	pthread_t thread;
	void *result;
	int i;

	ASSERT_EQ(0, hab_set_sampling_interval(self->heap, 16384));
	probes_listen(self->alloc);
	for (i = 0; i < 3000; i++) {
		ASSERT_EQ(0, pthread_create(&thread, NULL, run_thread, self));
		ASSERT_EQ(0, pthread_join(thread, &result));
		sampled += (uint64_t)result;
	}
	TH_LOG("%lu samples", sampled);
	EXPECT_TRUE(is_expected(sampled, 3000.0 * 100));
}

TEST_F(samples, children_draw_independently)
{
	uint64_t sampled = 0;
	int i, status;
	pid_t child;

	ASSERT_EQ(0, hab_set_sampling_interval(self->heap, 16384));
	probes_listen(self->alloc);
	/* The parent has drawn. */
	samples_of(self, 10);
	for (i = 0; i < 1000; i++) {
		child = fork();
		if (!child)
			_exit((int)samples_of(self, 200));
		ASSERT_EQ(child, waitpid(child, &status, 0));
		ASSERT_TRUE(WIFEXITED(status));
		sampled += WEXITSTATUS(status);
	}
	TH_LOG("%lu samples", sampled);
	EXPECT_TRUE(is_expected(sampled, 1000.0 * 200));
}

TEST_F(samples, opentelemetry_gets_the_bytes_that_a_sample_stands_for)
{
	static const size_t sizes[] = { 16, 1024, 9984, 100032, 1000000 };
	const double interval = 10000;
	double size, right;
	unsigned int i, j;

	probes_listen(self->alloc);
	ASSERT_EQ(0, hab_set_sampling_interval(self->heap, (int64_t)interval));
	for (i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		self->alloc->hits = 0;
		for (j = 0; j < 100000 && !self->alloc->hits; j++)
			if (!hab_alloc(self->heap, sizes[i]))
				ASSERT_EQ(0, hab_heap_reset(self->heap));
		ASSERT_EQ(1, self->alloc->hits);
		size = (double)(sizes[i] <= 16384 ? sizes[i] : (sizes[i] + 63) / 64 * 64);
		right = size / -expm1(-size / interval);
		EXPECT_LT(fabs((double)self->alloc->last[STANDS_FOR] - right), 2 + right / 1e6)
		TH_LOG("%zu bytes stand for %lu, not for %.0f", sizes[i], self->alloc->last[STANDS_FOR],
		       right);
	}
}

TEST_HARNESS_MAIN
