// SPDX-License-Identifier: GPL-2.0-only
/*
 * counted: instructions of one operation, in a VM whose time is counted in instructions: a
 * nanosecond is one (selftests/vm/run --icount). Lines "OPERATION COUNT".
 *
 * The difference of two runs of different length, so that what surrounds them drops out; the least
 * of several, because the kernel interrupts some. The loop itself is subtracted.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "lib/hab.h"
#include "inside/unwind.h"

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

	(void)!hab_chunk_take(heap, 64, &chunk);
}

static void take_base(void)
{
	(void)!hab_chunk_take_base(heap, 64);
}

static void alloc(void)
{
	(void)!hab_alloc(heap, 16);
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

#define FRAMES 64

static uint32_t frames;
static uintptr_t stack_end;

static void walk(void)
{
	uint64_t stack[FRAMES];

	frames = hab_unwind(0, stack, NULL, FRAMES, stack_end);
}

/* The difference of two depths is the cost of frames alone. */
static __attribute__((noinline)) double walk_at(int depth)
{
	double count = depth ? walk_at(depth - 1) : least(walk);

	/* No tail call. */
	__asm__ volatile("" ::: "memory");
	return count;
}

static void count_stacks(void)
{
	double loop = least(nothing), shallow, deep;
	pthread_attr_t attributes;
	uint32_t less;
	size_t bytes;
	void *stack;

	if (pthread_getattr_np(pthread_self(), &attributes))
		exit(1);
	pthread_attr_getstack(&attributes, &stack, &bytes);
	stack_end = (uintptr_t)stack + bytes;
	shallow = walk_at(4) - loop;
	less = frames;
	deep = walk_at(24) - loop;
	printf("stack of %u frames %.1f\n", less, shallow);
	printf("each further frame %.1f\n", (deep - shallow) / (frames - less));
}

static void on_sample(const struct hab_sample *sample, void *context)
{
	(void)sample;
	(void)context;
}

static void count_samples(void)
{
	double loop = least(nothing);

	heap = NULL;
	if (hab_heap_create(&heap, NULL))
		exit(1);
	hab_set_sampling_interval(heap, 0);
	hab_set_sample_handler(heap, on_sample, NULL);
	printf("hab_alloc of 16 bytes with a sample for a handler %.1f\n", least(alloc) - loop);
	hab_heap_destroy(heap);
}

int main(void)
{
	count_heap("clab=1M@cpu", "by CPU");
	count_heap("plab=1M@package", "by package");
	count_stacks();
	count_samples();
	return 0;
}
