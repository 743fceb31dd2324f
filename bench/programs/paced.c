// SPDX-License-Identifier: GPL-2.0-only
/*
 * A program that allocates so many bytes for each thousand instructions, from stacks of 15 frames.
 *
 *	paced BYTES MILLIONS OWN [FILE...]
 *
 * BYTES for each 1,000 instructions, MILLIONS million of them, after a warm-up of half of that. A
 * step of it has OWN instructions of its own; 0: they are measured and printed. A watched run takes
 * the number from a run that is not watched, so that both do the same. It prints the time in
 * nanoseconds and the FILEs at both ends. Where a machine executes 10^9 instructions a second (qemu
 * -icount), the time is the number of instructions, with those of the kernel and of all that
 * watches. A third of the bytes each is objects of 48, 1,024 and 16,384 bytes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "lib/hab.h"

#define STEP	 (48 * 1024) /* bytes */
#define FRAMES	 15
#define MEASURED 10000 /* steps: more than fill the heap, so that pages are not fresh */

static struct hab_heap *heap;

static unsigned long now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (unsigned long)time.tv_sec * 1000000000 + (unsigned long)time.tv_nsec;
}

static __attribute__((noinline)) void allocate(size_t size)
{
	size_t bytes;

	for (bytes = 0; bytes < STEP / 3; bytes += size)
		if (!hab_alloc(heap, size) && hab_heap_reset(heap))
			exit(1);
}

/* The values on the stack keep the calls from becoming jumps. */
static __attribute__((noinline)) int step(unsigned int frames)
{
	volatile int frame = (int)frames;

	if (frames > 2)
		return step(frames - 1) + frame;
	allocate(48);
	allocate(1024);
	allocate(16384);
	return frame;
}

/* Two instructions a round. */
static void spin(unsigned long rounds)
{
	__asm__ volatile("1: dec %0; jnz 1b" : "+r"(rounds) : : "cc");
}

static void print_files(const char *when, char **files)
{
	char line[4096];
	FILE *file;

	for (; *files; files++) {
		file = fopen(*files, "r");
		while (file && fgets(line, sizeof(line), file))
			printf("%s %s %s", when, *files, line);
		if (file)
			fclose(file);
	}
}

/* @own: instructions that a step takes itself. */
static void work(unsigned long bytes, unsigned long millions, unsigned long own)
{
	unsigned long steps = millions * 1000 * bytes / STEP, all = 1000ul * STEP / bytes, i;

	for (i = 0; i < steps; i++) {
		step(FRAMES);
		spin(all > own ? (all - own) / 2 : 1);
	}
}

/* Instructions of a step: nanoseconds, see above. */
static unsigned long measure_step(void)
{
	unsigned long begin, i;

	for (i = 0; i < MEASURED; i++)
		step(FRAMES);
	begin = now();
	for (i = 0; i < MEASURED; i++)
		step(FRAMES);
	return (now() - begin) / MEASURED;
}

int main(int argc, char **argv)
{
	unsigned long bytes = argc > 3 ? strtoul(argv[1], NULL, 10) : 0;
	unsigned long millions = argc > 3 ? strtoul(argv[2], NULL, 10) : 0;
	unsigned long own = argc > 3 ? strtoul(argv[3], NULL, 10) : 0;
	struct hab_heap_config config;

	if (!bytes || !millions) {
		fprintf(stderr, "usage: paced BYTES MILLIONS OWN [FILE...]\n");
		return 2;
	}
	hab_heap_config_init(&config);
	config.name = "paced";
	if (hab_heap_create(&heap, &config))
		return 1;
	if (!own) {
		own = measure_step();
		printf("own %lu\n", own);
	}
	work(bytes, millions / 2, own);
	print_files("begin", argv + 4);
	printf("begin time %lu\n", now());
	work(bytes, millions, own);
	printf("end time %lu\n", now());
	print_files("end", argv + 4);
	hab_heap_destroy(heap);
	return 0;
}
