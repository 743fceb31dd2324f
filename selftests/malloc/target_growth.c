// SPDX-License-Identifier: GPL-2.0-only
/*
 * Objects that grow, shrink and are freed between each other, so that the sampling interval changes
 * while an object does. The calls of each run are the same. A site counts the bytes that its
 * objects have at the end, as they were asked for.
 */
#include <stdio.h>
#include <stdlib.h>

#include "target_sites.h"

#define STEPS_MAX 24
#define ROUNDS	  60
#define OBJECTS	  32768

#define KIND(name)                                                                    \
	extern const char __start_site_##name[], __stop_site_##name[];                \
	void *name(void *, size_t) __attribute__((noinline, section("site_" #name))); \
	void *name(void *p, size_t size)                                              \
	{                                                                             \
		last = realloc(p, size);                                              \
		return last;                                                          \
	}
#define ENTRY(of, each_round, one_of, ...)                                                       \
	{                                                                                        \
		.name = #of, .resize = of, .start = __start_site_##of, .stop = __stop_site_##of, \
		.a_round = each_round, .frees = one_of, .sizes = { __VA_ARGS__ },                \
	}

/* Keeps the compiler from leaving calls out. */
static void *volatile last;

KIND(fixed)
KIND(freed)
KIND(doubled)
KIND(stepped)
KIND(shrunk)
KIND(regrown)

/**
 * struct kind - objects with the same history
 * @start: of the code of @resize; @stop: its end
 * @a_round: objects that begin in each round
 * @frees: of so many one stays at the end
 * @sizes: in each round of the object's, up to a 0
 */
struct kind {
	const char *name;
	void *(*resize)(void *p, size_t size);
	const char *start, *stop;
	size_t a_round, frees;
	size_t sizes[STEPS_MAX + 1];
	size_t allocated, in_use;
};

static struct kind kinds[] = {
	ENTRY(fixed, 40, 1, 3500),
	ENTRY(freed, 40, 2, 7000, 7000, 7000, 7000),
	ENTRY(doubled, 1, 1, 64, 128, 256, 512, 1000, 2000, 4000, 8000, 16000, 32000, 64000,
	      128000),
	ENTRY(stepped, 6, 1, 1500, 3000, 4500, 6000, 7500, 9000, 10500, 12000, 13500, 15000, 16500,
	      18000, 19500, 21000, 22500, 24000),
	ENTRY(shrunk, 25, 1, 30000, 20000, 9000, 5000),
	ENTRY(regrown, 7, 1, 2000, 40000, 3000, 12000, 1000, 20000),
};

#define NR_KINDS (sizeof(kinds) / sizeof(kinds[0]))

struct object {
	void *p;
	struct kind *kind;
	size_t step, number;
};

static struct object objects[OBJECTS];
static size_t nr_objects;

static void begin(struct kind *kind)
{
	size_t i;

	for (i = 0; i < kind->a_round; i++)
		objects[nr_objects++] = (struct object){ NULL, kind, 0, i };
}

/* The next step of its history. */
static void go_on(struct object *object)
{
	struct kind *kind = object->kind;
	size_t size = kind->sizes[object->step];
	size_t before = object->step ? kind->sizes[object->step - 1] : 0;

	if (!size)
		return;
	object->step++;
	object->p = kind->resize(object->p, size);
	kind->in_use += size - before;
	if (size > before)
		kind->allocated += size - before;
	pace(size);
	if (kind->sizes[object->step] || !(object->number % kind->frees))
		return;
	free(object->p);
	kind->in_use -= size;
}

/* Objects begin in so many rounds, @times those of one in each. */
static void run_rounds(size_t rounds, size_t times)
{
	size_t round, i, j;

	for (round = 0; round < rounds + STEPS_MAX; round++) {
		for (i = 0; i < NR_KINDS && round < rounds; i++)
			for (j = 0; j < times; j++)
				begin(&kinds[i]);
		for (i = 0; i < nr_objects; i++)
			go_on(&objects[i]);
	}
	for (i = 0; i < NR_KINDS; i++)
		printf("site %s %lx %lx %zu %zu\n", kinds[i].name, (unsigned long)kinds[i].start,
		       (unsigned long)kinds[i].stop, kinds[i].allocated, kinds[i].in_use);
}

void run_growth(void)
{
	run_rounds(ROUNDS, 1);
}

/* So many that more samples are live than the table holds. */
void run_much_growth(void)
{
	run_rounds(4 * ROUNDS, 1);
}

/* All are small at the same time, and large at the same time. */
void run_growth_at_once(void)
{
	run_rounds(1, ROUNDS);
}
