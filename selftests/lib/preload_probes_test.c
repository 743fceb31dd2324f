// SPDX-License-Identifier: GPL-2.0-only
/*
 * OpenTelemetry's probes in the preload library: habrun runs this program. Each test follows them
 * as a profiler does, by the address of each object, and knows what it has allocated and freed.
 */
#include <dlfcn.h>
#include <link.h>
#include <math.h>

#include "kselftest_harness.h"
#include "probes.h"
#include "selftests/malloc/own_channel.h"

#define OBJECTS	 200000
#define SIZE	 1000
#define LIVE_MAX 65536

/* What a profiler has: objects that were reported and not yet as freed. */
static struct {
	uint64_t live[LIVE_MAX];
	unsigned int nr;
	double bytes, variance; /* that all of them stand for */
	uint64_t unknown; /* frees of what was not reported, and a second report of an object */
} profiler;

static struct probe *alloc_probe, *free_probe;

static int find(uint64_t address)
{
	unsigned int i;

	for (i = profiler.nr; i; i--)
		if (profiler.live[i - 1] == address)
			return (int)i - 1;
	return -1;
}

static void follow(const struct probe *probe)
{
	int place = find(probe->last[0]);

	if (probe == alloc_probe) {
		profiler.unknown += place >= 0;
		profiler.bytes += (double)probe->last[2];
		profiler.variance += (double)probe->last[2] * ((double)probe->last[2] - SIZE);
		if (profiler.nr < LIVE_MAX)
			profiler.live[profiler.nr++] = probe->last[0];
	} else if (place < 0) {
		profiler.unknown++;
	} else {
		profiler.live[place] = profiler.live[--profiler.nr];
	}
}

FIXTURE(preloaded)
{
	struct probes probes;
	char *objects[OBJECTS];
};

static int find_library(struct dl_phdr_info *info, size_t size, void *context)
{
	const struct dl_phdr_info **found = context;
	static struct dl_phdr_info library;

	(void)size;
	if (!strstr(info->dlpi_name, "libhab-malloc.so"))
		return 0;
	library = *info;
	*found = &library;
	return 1;
}

FIXTURE_SETUP(preloaded)
{
	const struct dl_phdr_info *library = NULL;

#ifndef __x86_64__
	SKIP(return, "breakpoints are made for x86-64 only");
#endif
	dl_iterate_phdr(find_library, &library);
	ASSERT_NE(NULL, library)
	TH_LOG("run it by habrun");
	ASSERT_TRUE(probes_trace_file(&self->probes, library->dlpi_name, library->dlpi_addr));
	alloc_probe = probes_find(&self->probes, "otel_memory:alloc");
	free_probe = probes_find(&self->probes, "otel_memory:free");
	ASSERT_TRUE(alloc_probe && free_probe);
	memset(&profiler, 0, sizeof(profiler));
	self->probes.seen = follow;
}

FIXTURE_TEARDOWN(preloaded)
{
}

static void listen_to_both(void)
{
	probes_listen(free_probe);
	probes_listen(alloc_probe);
}

static bool allocate(FIXTURE_DATA(preloaded) * self)
{
	int i;

	for (i = 0; i < OBJECTS; i++) {
		self->objects[i] = malloc(SIZE);
		if (!self->objects[i])
			return false;
		/* A ring that is half full makes the interval larger. */
		if (i % 1024 == 0)
			wait_for_reader(HAB_CHANNEL_RING_BYTES / 8);
	}
	return true;
}

TEST_F(preloaded, what_objects_stand_for_adds_up_to_all_bytes)
{
	listen_to_both();
	ASSERT_TRUE(allocate(self));
	/* An object of S bytes that stands for W has a variance of W (W - S). */
	EXPECT_GT(HAB_STANDARD_ERRORS * sqrt(profiler.variance),
		  fabs(profiler.bytes - 1.0 * SIZE * OBJECTS))
	TH_LOG("%.0f", profiler.bytes);
	EXPECT_EQ(0, profiler.unknown);
}

TEST_F(preloaded, each_reported_object_is_reported_as_freed_once)
{
	unsigned int kept = 0, i;
	uintptr_t end;

	listen_to_both();
	ASSERT_TRUE(allocate(self));
	for (i = 0; i < OBJECTS; i += 2) {
		free(self->objects[i]);
		self->objects[i] = NULL;
	}
	/* What is left is what this program has kept. */
	for (i = 1; i < OBJECTS; i += 2) {
		end = (uintptr_t)self->objects[i];
		kept += find(end) >= 0;
	}
	EXPECT_EQ(profiler.nr, kept);
	EXPECT_LT(100, kept);
	for (i = 1; i < OBJECTS; i += 2)
		free(self->objects[i]);
	EXPECT_EQ(0, profiler.nr);
	EXPECT_EQ(0, profiler.unknown);
}

TEST_F(preloaded, an_object_that_grows_is_where_it_was_moved_to)
{
	unsigned int i, kept = 0;

	listen_to_both();
	ASSERT_TRUE(allocate(self));
	for (i = 0; i < OBJECTS; i++) {
		self->objects[i] = realloc(self->objects[i], 2 * SIZE + i % 1000);
		ASSERT_NE(NULL, self->objects[i]);
	}
	for (i = 0; i < OBJECTS; i++)
		kept += find((uintptr_t)self->objects[i]) >= 0;
	EXPECT_EQ(profiler.nr, kept);
	EXPECT_LT(100, kept);
	for (i = 0; i < OBJECTS; i++)
		self->objects[i] = realloc(self->objects[i], 0);
	EXPECT_EQ(0, profiler.nr);
	EXPECT_EQ(0, profiler.unknown);
}

TEST_F(preloaded, mappings_are_reported_too)
{
	size_t bytes = 8 << 20;
	char *memory;

	listen_to_both();
	memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	EXPECT_EQ(1, profiler.nr);
	EXPECT_LE(0, find((uintptr_t)memory));
	munmap(memory, bytes);
	EXPECT_EQ(0, profiler.nr);
	EXPECT_EQ(0, profiler.unknown);
}

TEST_F(preloaded, a_late_listener_to_frees_gets_only_objects_that_were_reported)
{
	unsigned int i;

	ASSERT_TRUE(allocate(self));
	EXPECT_EQ(0, alloc_probe->hits);
	listen_to_both();
	for (i = 0; i < OBJECTS; i++)
		free(self->objects[i]);
	EXPECT_EQ(0, free_probe->hits);
}

TEST_HARNESS_MAIN
