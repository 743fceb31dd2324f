// SPDX-License-Identifier: GPL-2.0-only
/*
 * A hot pair of malloc() and free(): pair BYTES MILLIONS. Prints nanoseconds a pair, the least of
 * ten parts.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define PARTS 10

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void run_pairs(size_t bytes, uint64_t pairs)
{
	void *volatile object;

	for (; pairs; pairs--) {
		object = malloc(bytes);
		free(object);
	}
}

int main(int argc, char **argv)
{
	uint64_t pairs, started, took, least = UINT64_MAX;
	size_t bytes;
	int part;

	if (argc != 3)
		return 2;
	bytes = strtoul(argv[1], NULL, 10);
	pairs = (uint64_t)(atof(argv[2]) * 1000000 / PARTS);
	for (part = 0; part < PARTS; part++) {
		started = now_ns();
		run_pairs(bytes, pairs);
		took = now_ns() - started;
		if (took < least)
			least = took;
	}
	printf("%.3f\n", (double)least / (double)pairs);
	return 0;
}
