// SPDX-License-Identifier: GPL-2.0-only
/*
 * The books of core/hierarchy, alone: no thread, no kernel.
 */
#include <stdlib.h>

#include "kselftest_harness.h"
#include "core/hierarchy.h"

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
static void start(struct _test_data_books *self, u64 arena, u32 nr, const struct hab_level *levels)
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

/* What a user would do: from the word if it can, else plan, exchange, commit. */
static int take(struct _test_data_books *self, int cpu, u64 least, u64 want, u64 *chunk, u64 *size)
{
	u32 lowest = self->h.nr_levels - 1;
	u64 *word = hab_hierarchy_word(&self->h, self->domains[cpu][lowest]);
	u64 old = *word;
	struct hab_plan plan;
	int err;

	if (least <= self->h.levels[lowest].size && HAB_WORD_REST(old) >= least) {
		*size = min(want, HAB_WORD_REST(old));
		*chunk = HAB_WORD_TOP(old);
		*word = old - *size * HAB_WORD_STEP;
		return 0;
	}
	err = hab_hierarchy_plan(&self->h, self->domains[cpu], least, want, &plan);
	if (err)
		return err;
	if (plan.replaces_word)
		*word = plan.word;
	hab_hierarchy_commit(&self->h, &plan, old);
	*chunk = plan.chunk;
	*size = plan.chunk_size;
	return 0;
}

/* Marks a chunk; -1 if any of it was taken before or lies outside. */
static int mark(struct _test_data_books *self, u64 chunk, u64 size)
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

static u64 books_sum(struct _test_data_books *self)
{
	struct hab_stats stats = { .size = sizeof(stats) };
	u64 sum;
	u32 l;

	hab_hierarchy_stats(&self->h, &stats);
	sum = self->handed_out * HAB_GRANULE + stats.levels[0].free_bytes;
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

/* Random takes on random CPUs until the arena is used up. */
static void run_out(struct __test_metadata *_metadata, struct _test_data_books *self,
		    const struct hab_level *levels, u32 nr)
{
	u64 chunk, size, least, want;
	int err, failures = 0;

	srand(42);
	start(self, 32 * MiB, nr, levels);
	while (failures < 1000) {
		least = 1 + rand() % (rand() % 64 ? 64 : 20000);
		want = least + rand() % 64;
		err = take(self, rand() % CPUS, least, want, &chunk, &size);
		if (err) {
			ASSERT_EQ(-ENOMEM, err);
			failures++;
			continue;
		}
		ASSERT_GE(size, least);
		ASSERT_LE(size, want);
		ASSERT_EQ(0, mark(self, chunk, size));
	}
	EXPECT_EQ(32 * MiB, books_sum(self));
	EXPECT_EQ(0, self->h.invalid_words);
}

TEST_F(books, chunks_never_overlap_and_no_byte_is_lost_with_clabs)
{
	run_out(_metadata, self, clab, 1);
}

TEST_F(books, chunks_never_overlap_and_no_byte_is_lost_with_plabs)
{
	run_out(_metadata, self, plab, 1);
}

TEST_F(books, chunks_never_overlap_and_no_byte_is_lost_with_plabs_over_clabs)
{
	run_out(_metadata, self, both, 2);
}

TEST_F(books, chunks_never_overlap_and_no_byte_is_lost_with_three_levels)
{
	run_out(_metadata, self, three, 3);
}

TEST_F(books, a_plan_that_is_dropped_changes_nothing)
{
	struct hab_hierarchy before;
	struct hab_plan plan;
	u64 chunk, size;

	start(self, 32 * MiB, 2, both);
	ASSERT_EQ(0, take(self, 0, 16, 16, &chunk, &size));
	before = self->h;
	ASSERT_EQ(0, hab_hierarchy_plan(&self->h, self->domains[5], 100, 100, &plan));
	EXPECT_EQ(0, memcmp(&before, &self->h, sizeof(before)));
}

TEST_F(books, a_request_above_a_level_is_served_by_the_next_one_up)
{
	struct hab_plan plan;

	start(self, 32 * MiB, 2, both);
	ASSERT_EQ(0, hab_hierarchy_plan(&self->h, self->domains[0], 1024, 1024, &plan));
	EXPECT_EQ(2, plan.level);
	ASSERT_EQ(0, hab_hierarchy_plan(&self->h, self->domains[0], 1025, 1025, &plan));
	EXPECT_EQ(1, plan.level);
	EXPECT_EQ(1025, plan.granted);
	ASSERT_EQ(0, hab_hierarchy_plan(&self->h, self->domains[0], 16385, 16385, &plan));
	EXPECT_EQ(0, plan.level);
}

TEST_F(books, buffers_of_two_packages_lie_in_different_blocks)
{
	u64 first, second, size;

	start(self, 32 * MiB, 2, both);
	ASSERT_EQ(0, take(self, 0, 16, 16, &first, &size));
	ASSERT_EQ(0, take(self, 7, 16, 16, &second, &size));
	EXPECT_GE(second - first, 1 * MiB / HAB_GRANULE);
	ASSERT_EQ(0, take(self, 1, 16, 16, &second, &size));
	EXPECT_LT(second - first, 1 * MiB / HAB_GRANULE);
}

TEST_F(books, words_that_were_never_granted_are_counted_and_give_nothing)
{
	static const u64 lies[] = { ~0ull, HAB_WORD(0, 1), HAB_WORD(1, HAB_WORD_REST_MAX),
				    HAB_WORD(1ull << 37, 5), HAB_WORD(3, 1021) };
	u64 *word, chunk, size, rest;
	unsigned int i;

	start(self, 32 * MiB, 1, clab);
	ASSERT_EQ(0, take(self, 0, 16, 16, &chunk, &size));
	ASSERT_EQ(0, take(self, 1, 16, 16, &chunk, &size));
	word = hab_hierarchy_word(&self->h, 1);
	for (i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
		struct hab_plan plan;

		EXPECT_FALSE(hab_hierarchy_rest(&self->h, 1, lies[i], &rest));
		EXPECT_EQ(0, rest);
		ASSERT_EQ(0, hab_hierarchy_plan(&self->h, self->domains[1], 16, 16, &plan));
		*word = plan.word;
		hab_hierarchy_commit(&self->h, &plan, lies[i]);
		ASSERT_EQ(0, mark(self, plan.chunk, plan.chunk_size));
	}
	EXPECT_EQ(i, self->h.invalid_words);
	/* Within the block, but not ending where it ends: a rest that was made up. */
	EXPECT_FALSE(hab_hierarchy_rest(&self->h, 1,
					HAB_WORD(self->h.levels[0].buffers[1].top + 1, 5), &rest));
	EXPECT_EQ(0, rest);
}

TEST_F(books, a_reset_gives_the_whole_arena_back)
{
	u64 chunk, size;

	start(self, 32 * MiB, 2, both);
	while (!take(self, rand() % CPUS, 100, 100, &chunk, &size))
		;
	hab_hierarchy_reset(&self->h);
	EXPECT_EQ(32 * MiB, books_sum(self));
	ASSERT_EQ(0, take(self, 0, 100, 100, &chunk, &size));
	EXPECT_EQ(0, chunk);
	EXPECT_EQ(1, self->h.resets);
}

TEST(sizes_and_domains_that_make_no_hierarchy_are_refused)
{
	struct hab_level level = clab[0];

	EXPECT_EQ(0, hab_hierarchy_check(1 * MiB, 1, clab));
	EXPECT_EQ(-EINVAL, hab_hierarchy_check(0, 1, clab));
	EXPECT_EQ(-ENOMEM, hab_hierarchy_check(1ull << 60, 1, clab));
	EXPECT_EQ(-EINVAL, hab_hierarchy_check(1 * MiB, 0, clab));
	EXPECT_EQ(-EINVAL, hab_hierarchy_check(1 * MiB, HAB_MAX_LEVELS + 1, clab));
	EXPECT_EQ(-EINVAL, hab_hierarchy_check(512 * KiB, 1, plab));
	level.kind = HAB_DOMAIN_KINDS;
	EXPECT_EQ(-EINVAL, hab_hierarchy_check(1 * MiB, 1, &level));
	level = clab[0];
	level.bytes = 0;
	EXPECT_EQ(-EINVAL, hab_hierarchy_check(1 * MiB, 1, &level));
	level.bytes = 64 * KiB + 1;
	EXPECT_EQ(-EINVAL, hab_hierarchy_check(1 * MiB, 1, &level));
	level.bytes = HAB_BUFFER_MAX + HAB_GRANULE;
	EXPECT_EQ(-EINVAL, hab_hierarchy_check(1ull << 40, 1, &level));
	level.bytes = 64 * KiB;
	level.reserved = 1;
	EXPECT_EQ(-EINVAL, hab_hierarchy_check(1 * MiB, 1, &level));
}

TEST(a_lower_level_larger_than_the_one_above_it_is_refused)
{
	struct hab_level upside_down[] = { both[1], both[0] };

	EXPECT_EQ(0, hab_hierarchy_check(32 * MiB, 2, both));
	EXPECT_EQ(-EINVAL, hab_hierarchy_check(32 * MiB, 2, upside_down));
}

TEST_HARNESS_MAIN
