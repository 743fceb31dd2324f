/* SPDX-License-Identifier: GPL-2.0-only */
/* Books of a machine of two packages with four CPUs each, and a user of them. */
#ifndef SELFTESTS_BOOKS_H
#define SELFTESTS_BOOKS_H

#include <stdlib.h>

#include "kselftest_harness.h"
#include "core/hierarchy/hierarchy.h"

#define CPUS 8
#define MiB  (1ull << 20)
#define KiB  (1ull << 10)

FIXTURE(books)
{
	struct hab_hierarchy h;
	struct hab_level levels[HAB_MAX_LEVELS];
	u32 domains[CPUS][HAB_MAX_LEVELS];
	unsigned char *used; /* a flag a granule */
	u64 handed_out;
};

FIXTURE_SETUP(books)
{
}

FIXTURE_TEARDOWN(books)
{
	int l;

	for (l = 0; l < HAB_MAX_LEVELS; l++)
		free(self->h.levels[l].buffers);
	free(self->h.words);
	free(self->used);
}

/* Two packages of four CPUs; the last level is each CPU's or each package's own. */
static inline void start(struct _test_data_books *self, u64 arena, u32 nr,
			 const struct hab_level *levels)
{
	u32 l, cpu;

	memcpy(self->levels, levels, nr * sizeof(*levels));
	self->h.words = calloc(CPUS, HAB_WORD_STRIDE);
	for (l = 0; l < nr; l++)
		self->h.levels[l].buffers = calloc(CPUS, sizeof(struct hab_buffer));
	hab_hierarchy_init(&self->h, arena, nr, levels, CPUS);
	for (cpu = 0; cpu < CPUS; cpu++) {
		for (l = 0; l < nr; l++)
			self->domains[cpu][l] = levels[l].kind == HAB_DOMAIN_CPU ? cpu : cpu / 4;
	}
	self->used = calloc(1, arena / HAB_GRANULE);
}

/* As a user takes: from the word if it can, else plan, exchange, commit. */
static inline int take(struct _test_data_books *self, int cpu, u64 least, u64 want, u64 *chunk,
		       u64 *size)
{
	u32 lowest = self->h.nr_levels - 1;
	u64 *word = hab_hierarchy_word(&self->h, self->domains[cpu][lowest]);
	u64 old = *word;
	struct hab_plan plan;
	u32 at = 0;
	int err;

	if (least <= self->h.levels[lowest].size && HAB_WORD_FREE(old) >= least) {
		*size = min(want, HAB_WORD_FREE(old));
		*chunk = HAB_WORD_TOP(old);
		*word = old - *size * HAB_WORD_STEP;
		return 0;
	}
	do
		err = hab_hierarchy_plan(&self->h, self->domains[cpu], least, want, 0, &plan);
	while (err == -ENOMEM && hab_hierarchy_collect(&self->h, &at));
	if (err)
		return err;
	/* Read again: the plan may have retired this buffer. */
	old = *word;
	if (plan.replaces_word)
		*word = plan.word;
	hab_hierarchy_commit(&self->h, &plan, old, 0);
	*chunk = plan.chunk;
	*size = plan.chunk_size;
	return 0;
}

/* Marks a chunk; -1 if a part of it was taken before or is outside of the arena. */
static inline int mark(struct _test_data_books *self, u64 chunk, u64 size)
{
	u64 g;

	if (chunk + size > self->h.arena)
		return -1;
	for (g = chunk; g < chunk + size; g++) {
		if (self->used[g]++)
			return -1;
	}
	self->handed_out += size;
	return 0;
}

static inline u64 books_sum(struct _test_data_books *self)
{
	struct hab_ioc_stats stats = { .size = sizeof(stats) };
	u32 l, at = 0;
	u64 sum;

	while (hab_hierarchy_stats(&self->h, &at, &stats))
		;
	sum = self->handed_out * HAB_GRANULE + stats.levels[0].free_bytes +
	      stats.levels[0].waste_bytes;
	for (l = 1; l <= self->h.nr_levels; l++)
		sum += stats.levels[l].free_bytes + stats.levels[l].waste_bytes;
	return sum;
}

static const struct hab_level clab[] = { { 64 * KiB, HAB_DOMAIN_CPU, 0 } };
static const struct hab_level plab[] = { { 1 * MiB, HAB_DOMAIN_PACKAGE, 0 } };
static const struct hab_level both[] = { { 1 * MiB, HAB_DOMAIN_PACKAGE, 0 },
					 { 64 * KiB, HAB_DOMAIN_CPU, 0 } };
static const struct hab_level three[] = { { 4 * MiB, HAB_DOMAIN_GLOBAL, 0 },
					  { 1 * MiB, HAB_DOMAIN_PACKAGE, 0 },
					  { 64 * KiB, HAB_DOMAIN_CPU, 0 } };

#endif /* SELFTESTS_BOOKS_H */
