// SPDX-License-Identifier: GPL-2.0-only
/*
 * counted: instructions of one operation, in a VM whose time is counted in instructions: a
 * nanosecond is one (selftests/vm/run --icount). Lines "OPERATION COUNT".
 *
 * The difference of two runs of different length, so that what surrounds them drops out; the least
 * of several, because the kernel interrupts some. The loop itself is subtracted.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "lib/hab.h"

#define SHORT	1000
#define LONG	2000
#define REPEATS 30

static struct hab_heap *heap;

static void nothing(void)
{
	__asm__ volatile("" ::: "memory");
}

static void take(void)
{
	struct hab_chunk chunk;

	hab_chunk_take(heap, 64, &chunk);
}

static void take_base(void)
{
	hab_chunk_take_base(heap, 64);
}

static void alloc(void)
{
	hab_alloc(heap, 16);
}

static uint64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static uint64_t run(void (*operation)(void), int times)
{
	uint64_t began = now();

	while (times--)
		operation();
	return now() - began;
}

static uint64_t least_of(void (*operation)(void), int times)
{
	uint64_t least = UINT64_MAX, took;
	int i;

	for (i = 0; i < REPEATS; i++) {
		took = run(operation, times);
		if (took < least)
			least = took;
	}
	return least;
}

static double least(void (*operation)(void))
{
	return (double)(least_of(operation, LONG) - least_of(operation, SHORT)) / (LONG - SHORT);
}

static void count_heap(const char *levels, const char *of)
{
	struct hab_heap_config config;
	double loop = least(nothing);
	int err;

	hab_heap_config_init(&config);
	config.flags = HAB_HEAP_PROCESS;
	config.levels = levels;
	config.arena_bytes = 64 << 20;
	err = hab_heap_create(&heap, &config);
	if (err) {
		fprintf(stderr, "counted: no heap %s: %s.\n", levels, strerror(-err));
		exit(1);
	}
	printf("hab_chunk_take %s %.1f\n", of, least(take) - loop);
	printf("hab_chunk_take_base %s %.1f\n", of, least(take_base) - loop);
	printf("hab_alloc of 16 bytes %s %.1f\n", of, least(alloc) - loop);
	hab_heap_destroy(heap);
}

int main(void)
{
	count_heap("clab=1M@cpu", "by CPU");
	count_heap("plab=1M@package", "by package");
	return 0;
}
