// SPDX-License-Identifier: GPL-2.0-only
/*
 * A program whose functions allocate known bytes, each objects of one size; it counts them itself.
 *
 *	brass SECONDS [BYTES_PER_SECOND]	as fast as it can, without the second argument
 *	zinc SECONDS [BYTES_PER_SECOND]
 *
 * brass: 48 bytes to 3 MiB, in equal shares of bytes. zinc: 64 to 2,048 bytes, in unequal ones.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "lib/hab.h"

#define STEP	    (1 << 18) /* bytes */
#define JOIN_(a, b) a##_##b
#define JOIN(a, b)  JOIN_(a, b)
#define TEXT_(a)    #a
#define TEXT(a)	    TEXT_(a)

static struct hab_heap *heap;
static uint64_t failed;

struct site {
	const char *name;
	void (*allocate)(struct site *site, uint64_t objects);
	uint64_t size;
	unsigned int percent; /* of all bytes */
	uint64_t due;	      /* bytes not yet allocated, in hundredths */
	uint64_t objects;
};

/* All objects are freed, at once, when the heap is full. */
static inline __attribute__((always_inline)) void allocate(struct site *site, uint64_t size,
							   uint64_t objects)
{
	for (; objects; objects--) {
		if (!hab_alloc(heap, size) && (hab_heap_reset(heap) || !hab_alloc(heap, size))) {
			failed++;
			continue;
		}
		site->objects++;
	}
}

#define DEFINE(size)                                                                  \
	static __attribute__((noinline)) void JOIN(PROGRAM, size)(struct site * site, \
								  uint64_t objects)   \
	{                                                                             \
		allocate(site, size, objects);                                        \
	}
#define SITE(size, percent)                                                         \
	{                                                                           \
		TEXT(JOIN(PROGRAM, size)), JOIN(PROGRAM, size), size, percent, 0, 0 \
	}

#ifdef LARGE
DEFINE(48)
DEFINE(4096)
DEFINE(393216)
DEFINE(3145728)
static struct site sites[] = { SITE(48, 25), SITE(4096, 25), SITE(393216, 25), SITE(3145728, 25) };
#else
DEFINE(64)
DEFINE(128)
DEFINE(256)
DEFINE(512)
DEFINE(1024)
DEFINE(2048)
static struct site sites[] = { SITE(64, 30),  SITE(128, 5),   SITE(256, 20),
			       SITE(512, 10), SITE(1024, 25), SITE(2048, 10) };
#endif
#define SITES (sizeof(sites) / sizeof(sites[0]))

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void allocate_step(void)
{
	uint64_t objects;
	unsigned int i;

	for (i = 0; i < SITES; i++) {
		sites[i].due += (uint64_t)STEP * sites[i].percent;
		objects = sites[i].due / 100 / sites[i].size;
		sites[i].due -= objects * sites[i].size * 100;
		sites[i].allocate(&sites[i], objects);
	}
}

static void print_counts(void)
{
	uint64_t bytes = 0;
	unsigned int i;

	for (i = 0; i < SITES; i++) {
		printf("function %s %lu %lu\n", sites[i].name, sites[i].objects,
		       sites[i].objects * sites[i].size);
		bytes += sites[i].objects * sites[i].size;
	}
	printf("program " TEXT(
		       PROGRAM) "\npid %d\nuid %u\nbytes %lu\nfailed %lu\nbackend %s\nended 1\n",
	       getpid(), getuid(), bytes, failed, hab_heap_backend(heap));
}

int main(int argc, char **argv)
{
	double seconds = argc > 1 ? atof(argv[1]) : 1, rate = argc > 2 ? atof(argv[2]) : 0;
	double start = now(), ahead;
	struct hab_heap_config config;
	uint64_t steps;

	hab_heap_config_init(&config);
	config.name = TEXT(PROGRAM);
	if (hab_heap_create(&heap, &config))
		return 1;
	for (steps = 0; now() < start + seconds; steps++) {
		ahead = rate > 0 ? start + (double)steps * STEP / rate - now() : 0;
		if (ahead > 0)
			usleep((useconds_t)(ahead * 1e6));
		allocate_step();
	}
	print_counts();
	hab_heap_destroy(heap);
	return failed != 0;
}
