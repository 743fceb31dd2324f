// SPDX-License-Identifier: GPL-2.0-only
/*
 * Modes of target.c in which threads allocate in each way that the preload library samples, each in
 * a function in a section of its own, which counts the bytes that it is sampled by.
 */
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "target_sites.h"

#define THREADS	    16
#define WAYS_BYTES  (300ul << 20) /* of each way, of all threads */
#define BURST_BYTES (64ul << 10)

static __thread void *volatile last;

/* Returns the bytes. */
#define WAY(name)                                                                         \
	extern const char __start_way_##name[], __stop_way_##name[];                      \
	static size_t name(size_t size) __attribute__((noinline, section("way_" #name))); \
	static size_t name(size_t size)

WAY(small)
{
	size = 16 + size % 512;
	last = malloc(size);
	free(last);
	return size;
}

WAY(large)
{
	size = 5000 + size % 50000;
	last = malloc(size);
	free(last);
	return size;
}

WAY(cleared)
{
	size = 8 * (1 + size % 300);
	last = calloc(size / 8, 8);
	free(last);
	return size;
}

/* What it begins with and what it grows by. */
WAY(grown)
{
	size_t before, after, sum, i;

	sum = size = 200 + size % 2000;
	last = malloc(size);
	before = malloc_usable_size(last);
	for (i = 1; i < 4; i++) {
		last = realloc(last, size << i);
		after = malloc_usable_size(last);
		sum += after > before ? after - before : 0;
		before = after;
	}
	free(last);
	return sum;
}

WAY(aligned)
{
	void *p;

	size = 64 + size % 3000;
	if (posix_memalign(&p, 64, size))
		die("posix_memalign");
	last = p;
	free(last);
	last = aligned_alloc(256, size & -64ul);
	free(last);
	last = memalign(32, size);
	free(last);
	return 2 * size + (size & -64ul);
}

WAY(mapped)
{
	size = 4096 * (1 + size % 6);
	last = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (last == MAP_FAILED)
		die("mmap");
	munmap(last, size);
	return size;
}

static const struct way {
	const char *name;
	size_t (*run)(size_t size);
	const char *first, *end;
} ways[] = {
#define ENTRY(name)                                                \
	{                                                          \
#name, name, __start_way_##name, __stop_way_##name \
	}
	ENTRY(small), ENTRY(large), ENTRY(cleared), ENTRY(grown), ENTRY(aligned), ENTRY(mapped),
};
#define WAYS (sizeof(ways) / sizeof(*ways))

static unsigned int threads;
static size_t allocated[WAYS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void *run_thread(void *number)
{
	size_t random = (size_t)number * 2654435761u + 1, sums[WAYS] = { 0 }, burst, before;
	unsigned int way, left = WAYS;

	while (left) {
		for (way = 0, left = 0; way < WAYS; way++) {
			before = sums[way];
			for (burst = 0; burst < BURST_BYTES && sums[way] < WAYS_BYTES / threads;) {
				random = random * 6364136223846793005u + 1442695040888963407u;
				burst = (sums[way] += ways[way].run(random >> 40)) - before;
			}
			left += sums[way] < WAYS_BYTES / threads;
			pthread_mutex_lock(&lock);
			pace(burst);
			pthread_mutex_unlock(&lock);
		}
	}
	for (way = 0; way < WAYS; way++)
		__atomic_fetch_add(&allocated[way], sums[way], __ATOMIC_RELAXED);
	return NULL;
}

static void run(void)
{
	pthread_t ids[THREADS];
	unsigned int i;

	for (i = 0; i < threads; i++)
		if (pthread_create(&ids[i], NULL, run_thread, (void *)(size_t)i))
			die("pthread_create");
	for (i = 0; i < threads; i++)
		pthread_join(ids[i], NULL);
	for (i = 0; i < WAYS; i++)
		printf("site %s %lx %lx %zu 0\n", ways[i].name, (unsigned long)ways[i].first,
		       (unsigned long)ways[i].end, allocated[i]);
}

void run_ways(void)
{
	threads = 1;
	run();
}

void run_ways_of_threads(void)
{
	threads = THREADS;
	run();
}
