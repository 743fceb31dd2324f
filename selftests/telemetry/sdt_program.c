// SPDX-License-Identifier: GPL-2.0-only
/*
 * A program with an allocator's own probes, otel_memory:alloc and free: sdt_program PROBES SECONDS
 * [storm]. It samples about so many of its objects, in bytes, of 64 MB that 80 % keep_large() and
 * 20 % keep_small() allocate, and frees three quarters of these again, for SECONDS. While nobody
 * listens it waits.
 *
 * It prints "waits", "works" and "done", the last with what was allocated and is kept, in
 * bytes and objects, by function. It ends at the end of its input. storm: it frees objects as fast
 * as it can, most of which were not reported, and allocates others, for SECONDS.
 */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define _SDT_HAS_SEMAPHORES 1
#include <sys/sdt.h>

#define SEMAPHORE __attribute__((section(".probes"))) volatile unsigned short
SEMAPHORE otel_memory_alloc_semaphore;
SEMAPHORE otel_memory_free_semaphore;

#define ALL   (64000000ul)
#define LARGE 4000u
#define SMALL 100u
#define SECOND 50	     /* turns of waiting */
#define END    (300 * SECOND)
#define ROUNDS (ALL / 5 / SMALL / 4)

struct object {
	struct object *next;
	size_t size;
	int reported;
};

static char *memory;
static size_t used;
static double interval, until;
static size_t nr[2], kept[2];

static void draw(void)
{
	until = -log(1 - drand48()) * interval;
}

/* In each function that allocates: so the probe has several sites. */
static inline __attribute__((always_inline)) void report(void *p, size_t size, size_t weighted)
{
	DTRACE_PROBE3(otel_memory, alloc, p, size, weighted);
}

/* It is drawn by bytes: what an object stands for is its size by its probability. */
static inline __attribute__((always_inline)) struct object *allocate(size_t size)
{
	struct object *object = (void *)(memory + used);

	used += size < sizeof(*object) ? sizeof(*object) : size;
	object->size = size;
	object->reported = 0;
	until -= (double)size;
	if (until > 0)
		return object;
	draw();
	if (!otel_memory_alloc_semaphore)
		return object;
	object->reported = 1;
	report(object, size,
	       (size_t)((double)size / -expm1(-(double)size / interval) + 0.5));
	return object;
}

__attribute__((noinline)) struct object *keep_large(void)
{
	struct object *object = allocate(LARGE);

	__asm__ volatile("" : "+r"(object));
	return object;
}

__attribute__((noinline)) struct object *keep_small(void)
{
	struct object *object = allocate(SMALL);

	__asm__ volatile("" : "+r"(object));
	return object;
}

/* As an allocator would report it from an operand in memory. */
static void give_back(struct object *object)
{
	volatile struct object *where = object;

	if (object->reported && otel_memory_free_semaphore)
		DTRACE_PROBE1(otel_memory, free, where);
}

static void storm(double seconds)
{
	time_t end = time(NULL) + (time_t)seconds;
	struct object *object;
	unsigned long i;

	while (time(NULL) < end)
		for (i = 0; i < 1000; i++) {
			object = (void *)(memory + (i << 7));
			object->reported = 1;
			give_back(object);
			if (i % 8 == 0)
				report(object, SMALL, SMALL * 10);
		}
}

int main(int argc, char **argv)
{
	double seconds = argc > 2 ? atof(argv[2]) : 1;
	struct timespec pause = { 0 };
	unsigned long i, j, since = 0;
	struct object *object;
	char byte;

	memory = mmap(NULL, 2 * ALL, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (argc < 3 || memory == MAP_FAILED)
		return 1;
	srand48(getpid() + time(NULL));
	interval = (double)ALL / atof(argv[1]);
	draw();
	printf("waits\n");
	fflush(stdout);
	/* What touches memory is seen. */
	for (i = 0; i < END; i++) {
		if (!otel_memory_alloc_semaphore || !otel_memory_free_semaphore)
			since = i;
		/* That of another user's collector may be there first. */
		if (i - since > 4 * SECOND)
			break;
		memset(memory + ALL + (i % 32 << 20), 1, 1 << 20);
		if (i % 32 == 31)
			madvise(memory + ALL, 32 << 20, MADV_DONTNEED);
		usleep(1000000 / SECOND);
	}
	printf("works\n");
	fflush(stdout);
	if (argc > 3) {
		storm(seconds);
		printf("done\n");
		fflush(stdout);
		return read(0, &byte, 1) < 0;
	}
	pause.tv_nsec = (long)(seconds * 1e9 / (ROUNDS / 100));
	for (i = 0; i < ROUNDS; i++) {
		/* 16 bytes of 20 by the large ones: 4 of 100 bytes for each of 1600. */
		for (j = 0; j < 4; j++) {
			object = keep_small();
			nr[0]++;
			kept[0] += j == 3;
			if (j != 3)
				give_back(object);
		}
		if (i % 5 < 2) {
			object = keep_large();
			nr[1]++;
			kept[1] += i % 20 < 2;
			if (i % 20 >= 2)
				give_back(object);
		}
		if (i % 100 == 0)
			nanosleep(&pause, NULL);
	}
	printf("done keep_small %zu %zu %zu %zu keep_large %zu %zu %zu %zu\n", nr[0] * SMALL, nr[0],
	       kept[0] * SMALL, kept[0], nr[1] * LARGE, nr[1], kept[1] * LARGE, kept[1]);
	fflush(stdout);
	return read(0, &byte, 1) < 0;
}
