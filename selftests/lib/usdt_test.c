// SPDX-License-Identifier: GPL-2.0-only
/*
 * Static probes, on this host and without privilege: OpenTelemetry's two are reached only while
 * they have a listener, and report each object once.
 */
#include <libgen.h>
#include <math.h>

#include "kselftest_harness.h"
#include "lib/hab.h"
#include "probes.h"
#include "lib/telemetry/usdt_objects.h"

#define TLAB   4096
#define OBJECT 48
#define LARGE  20000

static const char *const names[] = { "otel_memory:alloc", "otel_memory:free" };
static const int nr_arguments[] = { 3, 1 };
#define NAMES 2

FIXTURE(probes)
{
	struct probes probes;
	struct probe *alloc, *free;
	struct hab_heap *heap;
	struct hab_heap_stats before, after;
};

FIXTURE_SETUP(probes)
{
	struct hab_heap_config config;

#ifndef __x86_64__
	SKIP(return, "breakpoints are made for x86-64 only");
#endif
	ASSERT_TRUE(probes_trace(&self->probes));
	self->alloc = probes_find(&self->probes, "otel_memory:alloc");
	self->free = probes_find(&self->probes, "otel_memory:free");
	ASSERT_TRUE(self->alloc && self->free);
	hab_heap_config_init(&config);
	config.flags = HAB_HEAP_PROCESS;
	config.arena_bytes = 128 << 20;
	config.tlab_bytes = TLAB;
	config.levels = "clab=256K@cpu";
	config.name = "probed";
	ASSERT_EQ(0, hab_heap_create(&self->heap, &config));
	ASSERT_EQ(0, hab_set_sampling_interval(self->heap, 10000));
}

FIXTURE_TEARDOWN(probes)
{
	hab_heap_destroy(self->heap);
}

/* Small objects, and sometimes a large one that goes outside of the TLAB. */
static bool allocate(FIXTURE_DATA(probes) * self, int objects)
{
	int i;

	hab_heap_stats(self->heap, &self->before);
	for (i = 0; i < objects; i++) {
		if (!hab_alloc(self->heap, OBJECT))
			return false;
		if (i % 100 == 99 && !hab_alloc(self->heap, LARGE))
			return false;
	}
	hab_heap_stats(self->heap, &self->after);
	return true;
}

static uint64_t all_hits(const struct probes *probes)
{
	uint64_t hits = 0;
	int i;

	for (i = 0; i < probes->nr; i++)
		hits += probes->all[i].hits;
	return hits;
}

/* The expected probes and no others, each in a form that every tracer reads. */
static int wrong_probes(struct __test_metadata *_metadata, struct probes *probes)
{
	int i, wrong = probes->nr != NAMES;
	struct probe *probe;

	for (i = 0; i < NAMES; i++) {
		probe = probes_find(probes, names[i]);
		if (probe && probe->semaphore && probe->nr_arguments == nr_arguments[i])
			continue;
		TH_LOG("%s: %s", names[i],
		       !probe		 ? "is missing" :
		       !probe->semaphore ? "has no semaphore" :
					   "has arguments that some tracers cannot read");
		wrong++;
	}
	return wrong;
}

TEST_F(probes, the_program_has_two_probes_with_semaphores_that_each_tracer_reads)
{
	EXPECT_EQ(0, wrong_probes(_metadata, &self->probes));
}

TEST_F(probes, the_shared_library_has_the_same_probes)
{
	struct probes *probes = calloc(1, sizeof(*probes));
	char self_path[4096] = "", path[4200];

	ASSERT_LT(0, readlink("/proc/self/exe", self_path, sizeof(self_path) - 1));
	snprintf(path, sizeof(path), "%s/../libhab.so", dirname(self_path));
	probes_read(probes, path);
	EXPECT_EQ(0, wrong_probes(_metadata, probes));
	free(probes);
}

TEST_F(probes, no_probe_is_reached_without_a_listener)
{
	ASSERT_TRUE(allocate(self, 5000));
	ASSERT_EQ(0, hab_heap_reset(self->heap));
	EXPECT_EQ(0, all_hits(&self->probes));
	/* The same after a listener was detached. */
	probes_listen(self->alloc);
	ASSERT_TRUE(allocate(self, 5000));
	EXPECT_GT(self->alloc->hits, 0);
	EXPECT_EQ(self->alloc->hits, all_hits(&self->probes));
	probes_leave(self->alloc);
	self->alloc->hits = 0;
	ASSERT_TRUE(allocate(self, 5000));
	EXPECT_EQ(0, all_hits(&self->probes));
}

TEST_F(probes, what_objects_stand_for_adds_up_to_all_bytes)
{
	double allocated;

	probes_listen(self->alloc);
	ASSERT_TRUE(allocate(self, 200000));
	allocated = (double)(self->after.allocated_bytes - self->before.allocated_bytes);
	EXPECT_GT(self->alloc->hits, 2000);
	/* 5.5 standard errors. */
	EXPECT_GT(0.1, fabs((double)self->alloc->sums[2] / allocated - 1));
}

/* The frees of the first @reported objects were reported, in their order, and no others. */
static bool freed_once(FIXTURE_DATA(probes) * self, uint64_t reported)
{
	return self->free->hits == reported &&
	       !memcmp(self->free->first_arguments, self->alloc->first_arguments,
		       reported * sizeof(uint64_t));
}

TEST_F(probes, each_reported_object_is_reported_as_freed_once_by_a_reset_or_destroy)
{
	probes_listen(self->alloc);
	probes_listen(self->free);
	ASSERT_TRUE(allocate(self, 20000));
	EXPECT_GT(self->alloc->hits, 200);
	EXPECT_EQ(0, self->free->hits);
	ASSERT_EQ(0, hab_heap_reset(self->heap));
	EXPECT_TRUE(freed_once(self, self->alloc->hits));
	ASSERT_EQ(0, hab_heap_reset(self->heap));
	EXPECT_EQ(self->alloc->hits, self->free->hits);

	ASSERT_TRUE(allocate(self, 5000));
	EXPECT_GT(self->alloc->hits, self->free->hits);
	hab_heap_destroy(self->heap);
	self->heap = NULL;
	EXPECT_TRUE(freed_once(self, self->alloc->hits));
}

TEST_F(probes, each_reported_object_of_a_region_is_reported_as_freed_when_it_is_closed)
{
	struct hab_region region;
	uint64_t before;
	int round, i;

	/* Every object, so many more than a heap keeps. */
	ASSERT_EQ(0, hab_set_sampling_interval(self->heap, 0));
	probes_listen(self->alloc);
	probes_listen(self->free);
	ASSERT_EQ(0, hab_region_open(&region, self->heap));
	for (round = 0; round < 10; round++) {
		for (i = 0; i < 1000; i++)
			ASSERT_NE(NULL, hab_region_alloc(&region, 100));
		before = self->free->hits;
		EXPECT_EQ(1000ull * (round + 1), self->alloc->hits);
		hab_region_close(&region);
		EXPECT_EQ(before + 1000, self->free->hits);
	}
	ASSERT_EQ(0, hab_heap_reset(self->heap));
	EXPECT_EQ(self->alloc->hits, self->free->hits);
}

TEST_F(probes, a_late_listener_to_frees_gets_only_objects_that_were_reported)
{
	ASSERT_TRUE(allocate(self, 20000));
	probes_listen(self->free);
	ASSERT_EQ(0, hab_heap_reset(self->heap));
	EXPECT_EQ(0, self->free->hits);
}

TEST_F(probes, objects_beyond_the_limit_are_not_reported_as_freed)
{
	ASSERT_EQ(0, hab_set_sampling_interval(self->heap, 0));
	probes_listen(self->alloc);
	probes_listen(self->free);
	ASSERT_TRUE(allocate(self, HAB_USDT_OBJECTS + 1000));
	EXPECT_GT(self->alloc->hits, HAB_USDT_OBJECTS);
	ASSERT_EQ(0, hab_heap_reset(self->heap));
	EXPECT_TRUE(freed_once(self, HAB_USDT_OBJECTS));
	/* The list has room again. */
	self->alloc->hits = self->free->hits = 0;
	ASSERT_TRUE(allocate(self, 1000));
	EXPECT_EQ(1010, self->alloc->hits);
	ASSERT_EQ(0, hab_heap_reset(self->heap));
	EXPECT_TRUE(freed_once(self, 1010));
}

TEST_HARNESS_MAIN
