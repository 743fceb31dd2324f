// SPDX-License-Identifier: GPL-2.0-only
/*
 * The books alone, for machines of many CPUs: how long the lock of a heap is held for a refill of a
 * full heap, for a reset and for statistics. In the module preemption is off meanwhile.
 *
 *   books [--rounds N]
 *
 * The refill is the worst one: every domain has a buffer to be retired, no two free extents join,
 * and none is large enough.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/hierarchy/hierarchy.h"
#include "lib/clock.h"
#include "statistics.h"

#define KiB	  1024ull
#define MiB	  (1024 * KiB)
#define HOLDS_MAX 1000000

static const struct hab_level levels[] = { { MiB, HAB_DOMAIN_CORE, 0 },
					   { 64 * KiB, HAB_DOMAIN_CPU, 0 } };

static struct hab_hierarchy books;
static double *holds[3]; /* nanoseconds, of each operation below */
static int nr_holds[3];
enum operation { REFILL, RESET, STATS };
static const char *const names[] = { "refill of a full heap", "reset", "statistics" };

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

static void measure_refill(void)
{
	u32 domains[] = { 0, 0 };
	struct hab_plan plan;
	bool more = true;
	u32 at = 0;
	u64 began;
	int err;

	while (more) {
		began = hab_clock_ns();
		err = hab_hierarchy_plan(&books, domains, MiB / HAB_GRANULE, MiB / HAB_GRANULE, 0,
					 &plan);
		more = err == -ENOMEM && hab_hierarchy_collect(&books, &at);
		hold(REFILL, began);
	}
	if (err != -ENOMEM)
		die("the heap is not full");
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
		measure_refill();
		measure_stats();
		measure_reset();
	}
	free_books();
	for (i = 0; i < 3; i++) {
		summary = bench_summarize(holds[i], nr_holds[i]);
		printf("%-24s %6u %14.0f %14.0f\n", names[i], nr, summary.median, summary.max);
	}
}

int main(int argc, char **argv)
{
	int rounds = argc == 3 && !strcmp(argv[1], "--rounds") ? atoi(argv[2]) : 1000, i;

	if (rounds < 1)
		die("usage: books [--rounds N]");
	for (i = 0; i < 3; i++) {
		holds[i] = malloc(HOLDS_MAX * sizeof(*holds[i]));
		if (!holds[i])
			die("out of memory");
	}
	printf("%-24s %6s %14s %14s\n", "the lock is held for", "CPUs", "median, ns", "worst, ns");
	measure(8, rounds);
	measure(512, rounds);
	measure(1024, rounds);
	for (i = 0; i < 3; i++)
		free(holds[i]);
	return 0;
}
