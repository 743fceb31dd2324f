// SPDX-License-Identifier: GPL-2.0-only
/*
 * A program whose figures are known: figures [THREADS]. Each thread calls each function below, and
 * at the end "NAME ALLOCATED OBJECTS IN-USE" is printed for each: what its objects add up to. The
 * program takes no other memory of the allocator, but for some hundred bytes of the C library.
 *
 * With PACED_BY_RING in the environment it waits for its collector now and then.
 *
 * The last function grows objects by realloc(): 1.5 times at each of several steps.
 */
#include <malloc.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "own_channel.h"

#define THREADS_MAX 64

struct sums {
	size_t allocated, objects, in_use;
};

enum site { LEAK_SMALL, LEAK_MEDIUM, LEAK_LARGE, CHURN, GROW, SITES };

static const char *const names[SITES] = { "leak_small", "leak_medium", "leak_large", "churn",
					  "grow" };

/* Chains, so that nothing that leaks can be left out by the compiler. */
static __thread void *volatile last;

static void *keep(void *p)
{
	if (!p)
		abort();
	*(void **)p = last;
	last = p;
	return p;
}

#define SITE __attribute__((noinline))

SITE void leak_small(struct sums *sums)
{
	keep(malloc(100));
	*sums = (struct sums){ sums->allocated + 100, sums->objects + 1, sums->in_use + 100 };
}

SITE void leak_medium(struct sums *sums)
{
	keep(calloc(1, 4000));
	*sums = (struct sums){ sums->allocated + 4000, sums->objects + 1, sums->in_use + 4000 };
}

SITE void leak_large(struct sums *sums)
{
	keep(malloc(1000000));
	*sums = (struct sums){ sums->allocated + 1000000, sums->objects + 1,
			       sums->in_use + 1000000 };
}

SITE void churn(struct sums *sums)
{
	void *p = malloc(30000);

	*(void *volatile *)p = NULL;
	free(p);
	sums->allocated += 30000;
	sums->objects++;
}

/* To some 13 times of its size. What it grows by counts as an object, as it does in profiles. */
SITE void grow(struct sums *sums)
{
	size_t size = 3000, before = 0, after;
	void *p = NULL;
	int step;

	for (step = 0; step < 7; step++) {
		p = realloc(p, size);
		after = malloc_usable_size(p);
		sums->allocated += before ? after - before : size;
		sums->objects++;
		before = after;
		size += size / 2;
	}
	sums->in_use += size * 2 / 3;
	keep(p);
}

static unsigned int threads = 1;
static bool is_paced;

static void *run(void *context)
{
	struct sums *sums = context;
	unsigned int i, rounds = 320000 / threads;

	for (i = 0; i < rounds; i++) {
		leak_small(&sums[LEAK_SMALL]);
		if (i % 25 == 0)
			leak_medium(&sums[LEAK_MEDIUM]);
		if (i % 5000 == 0)
			leak_large(&sums[LEAK_LARGE]);
		if (i % 20 == 0)
			churn(&sums[CHURN]);
		if (i % 200 == 0)
			grow(&sums[GROW]);
		if (is_paced && i % 16 == 0)
			wait_for_reader(HAB_CHANNEL_RING_BYTES / 8);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	static struct sums sums[THREADS_MAX][SITES];
	static char buffer[4096];
	pthread_t ids[THREADS_MAX];
	struct sums all;
	unsigned int i;
	int site;

	is_paced = getenv("PACED_BY_RING");
	if (argc > 1)
		threads = (unsigned int)atoi(argv[1]);
	if (threads < 1 || threads > THREADS_MAX)
		return 2;
	setvbuf(stdout, buffer, _IOFBF, sizeof(buffer));
	for (i = 1; i < threads; i++)
		if (pthread_create(&ids[i], NULL, run, sums[i]))
			return 1;
	run(sums[0]);
	for (i = 1; i < threads; i++)
		pthread_join(ids[i], NULL);
	for (site = 0; site < SITES; site++) {
		all = (struct sums){ 0 };
		for (i = 0; i < threads; i++) {
			all.allocated += sums[i][site].allocated;
			all.objects += sums[i][site].objects;
			all.in_use += sums[i][site].in_use;
		}
		printf("%s %zu %zu %zu\n", names[site], all.allocated, all.objects, all.in_use);
	}
	return 0;
}
