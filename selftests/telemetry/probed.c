// SPDX-License-Identifier: GPL-2.0-only
/*
 * probed ROUNDS PAUSE_MS: a program on the process backend. Each round allocates small objects and
 * a large one, then waits. Prints the statistics of its heap.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/hab.h"

#define OBJECT 48
#define LARGE  20000

/* The stacks must have this name. */
__attribute__((noinline)) static int allocate_small_ones(struct hab_heap *heap)
{
	int i;

	for (i = 0; i < 5000; i++)
		if (!hab_alloc(heap, OBJECT))
			return 0;
	return 1;
}

__attribute__((noinline)) static int allocate_a_large_one(struct hab_heap *heap)
{
	void *object = hab_alloc_tagged(heap, LARGE, "struct large");

	/* No tail call, so that it is in the stack. */
	__asm__ volatile("" ::: "memory");
	return object != NULL;
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 100, pause_ms = argc > 2 ? atoi(argv[2]) : 0, i;
	struct hab_heap_config config;
	struct hab_heap_stats stats;
	struct hab_heap *heap;

	hab_heap_config_init(&config);
	config.flags = HAB_HEAP_PROCESS;
	config.arena_bytes = 64 << 20;
	config.tlab_bytes = 4096;
	config.levels = "clab=64K@cpu";
	config.name = "probed";
	if (hab_heap_create(&heap, &config) || hab_set_sampling_interval(heap, 10000))
		return 1;
	for (i = 0; i < rounds; i++) {
		if (!allocate_small_ones(heap) || !allocate_a_large_one(heap))
			return 1;
		if (i % 100 == 99 && hab_heap_reset(heap))
			return 1;
		usleep(1000 * pause_ms);
	}
	if (hab_heap_stats(heap, &stats))
		return 1;
	printf("pid %d\nrefills %llu\nbytes %llu\nallocated %llu\ntlabs %llu\noutside %llu\n",
	       getpid(), (unsigned long long)stats.refills,
	       (unsigned long long)stats.refill_bytes, (unsigned long long)stats.allocated_bytes,
	       (unsigned long long)stats.tlab_refills,
	       (unsigned long long)stats.outside_allocations);
	hab_heap_destroy(heap);
	return 0;
}
