// SPDX-License-Identifier: GPL-2.0-only
/*
 * The books alone, for machines of many CPUs: how long the lock of a heap is held for a refill, for
 * a step of collecting in a full heap, of a reset and of statistics. In the module preemption is
 * off meanwhile.
 *
 *   books [--rounds N]
 *
 * It is the worst case: every domain has a buffer to be retired, the set of free extents is full,
 * and no two of them join.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/hierarchy/refill.h"
#include "lib/clock.h"
#include "statistics.h"

#define KiB	  1024ull
#define MiB	  (1024 * KiB)
#define HOLDS_MAX 1000000

static const struct hab_level levels[] = { { MiB, HAB_DOMAIN_CORE, 0 },
					   { 64 * KiB, HAB_DOMAIN_CPU, 0 } };

static struct hab_hierarchy books;
enum operation { REFILL, COLLECT, RESET, STATS, OPERATIONS };
static double *holds[OPERATIONS]; /* nanoseconds */
static int nr_holds[OPERATIONS];
static const char *const names[] = { "refill", "step of collecting", "step of a reset",
				     "step of statistics" };

static void die(const char *what)
{
	fprintf(stderr, "books: %s\n", what);
	exit(1);
}

static void make_books(u32 nr)
{
	u32 l;

	memset(&books, 0, sizeof(books));
	books.words = calloc(nr, HAB_WORD_STRIDE);
	for (l = 0; l < 2; l++)
		books.levels[l].buffers = calloc(nr, sizeof(struct hab_buffer));
	if (!books.words || !books.levels[0].buffers || !books.levels[1].buffers)
		die("out of memory");
	hab_hierarchy_init(&books, nr * MiB, 2, levels, nr);
}

static void free_books(void)
{
	free(books.words);
	free(books.levels[0].buffers);
	free(books.levels[1].buffers);
}

static void hold(enum operation operation, u64 began)
{
	if (nr_holds[operation] < HOLDS_MAX)
		holds[operation][nr_holds[operation]++] = hab_clock_ns() - began;
}

/* Every CPU has a block of both levels, and the arena is used up. */
static void fill(u32 nr)
{
	struct hab_plan plan;
	u32 cpu;

	for (cpu = 0; cpu < nr; cpu++) {
		u32 domains[] = { cpu, cpu };

		if (hab_hierarchy_plan(&books, domains, 16, 16, 0, &plan))
			die("the heap is full too early");
		*hab_hierarchy_word(&books, cpu) = plan.word;
		hab_hierarchy_commit(&books, &plan, 0, 0);
	}
}

/* No extent is large enough. */
static void measure_collect(void)
{
	u32 domains[] = { 0, 0 };
	struct hab_plan plan;
	bool more = true;
	u32 at = 0;
	u64 began;

	if (hab_hierarchy_plan(&books, domains, MiB / HAB_GRANULE, MiB / HAB_GRANULE, 0, &plan) !=
	    -ENOMEM)
		die("the heap is not full");
	while (more) {
		began = hab_clock_ns();
		more = hab_hierarchy_collect(&books, &at);
		hold(COLLECT, began);
	}
}

static u64 no_clock(const struct hab_hierarchy *h)
{
	(void)h;
	return 0;
}

/* What the word has left becomes an extent, and the smallest one is dropped. */
static void measure_refill(u32 nr)
{
	struct hab_plan plan;
	u64 began;
	u32 cpu;
	int err;

	for (cpu = 0; cpu < nr; cpu++) {
		u32 domains[] = { cpu, cpu };

		began = hab_clock_ns();
		err = hab_hierarchy_refill(&books, domains, 64 * KiB / HAB_GRANULE,
					   64 * KiB / HAB_GRANULE, 0, no_clock, &plan);
		hold(REFILL, began);
		if (err)
			die("a refill has failed");
	}
}

static void measure_reset(void)
{
	bool more = true;
	u32 at = 0;
	u64 began;

	while (more) {
		began = hab_clock_ns();
		more = hab_hierarchy_reset(&books, &at);
		hold(RESET, began);
	}
}

static void measure_stats(void)
{
	struct hab_ioc_stats stats = { .size = sizeof(stats) };
	bool more = true;
	u32 at = 0;
	u64 began;

	while (more) {
		began = hab_clock_ns();
		more = hab_hierarchy_stats(&books, &at, &stats);
		hold(STATS, began);
	}
}

static void measure(u32 nr, int rounds)
{
	struct bench_summary summary;
	int i;

	memset(nr_holds, 0, sizeof(nr_holds));
	make_books(nr);
	for (i = 0; i < rounds; i++) {
		fill(nr);
		measure_collect();
		measure_refill(nr);
		measure_stats();
		measure_reset();
	}
	free_books();
	for (i = 0; i < OPERATIONS; i++) {
		/* It sorts them. */
		summary = bench_summarize(holds[i], nr_holds[i]);
		printf("%-24s %6u %12.0f %12.0f %12.0f\n", names[i], nr, summary.median,
		       holds[i][(nr_holds[i] - 1) / 100 * 99], summary.max);
	}
}

int main(int argc, char **argv)
{
	int rounds = argc == 3 && !strcmp(argv[1], "--rounds") ? atoi(argv[2]) : 1000, i;

	if (rounds < 1)
		die("usage: books [--rounds N]");
	for (i = 0; i < OPERATIONS; i++) {
		holds[i] = malloc(HOLDS_MAX * sizeof(*holds[i]));
		if (!holds[i])
			die("out of memory");
	}
	printf("%-24s %6s %12s %12s %12s\n", "the lock is held for", "CPUs", "median, ns", "p99, ns",
	       "longest, ns");
	measure(64, rounds);
	measure(256, rounds);
	measure(1024, rounds);
	for (i = 0; i < OPERATIONS; i++)
		free(holds[i]);
	return 0;
}
