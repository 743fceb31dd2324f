// SPDX-License-Identifier: GPL-2.0-only
/*
 * The books of core/hierarchy without threads or kernel.
 */
#include <stdlib.h>

#include "kselftest_harness.h"
#include "core/hierarchy/growth.h"
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

/* As a user takes: from the word if it can, else plan, exchange, commit. */
static int take(struct _test_data_books *self, int cpu, u64 least, u64 want, u64 *chunk, u64 *size)
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
	ASSERT_EQ(0, hab_hierarchy_plan(&self->h, self->domains[5], 100, 100, 0, &plan));
	EXPECT_EQ(0, memcmp(&before, &self->h, sizeof(before)));
}

TEST_F(books, a_request_above_a_levels_size_is_served_by_the_next_level_up)
{
	struct hab_plan plan;

	start(self, 32 * MiB, 2, both);
	ASSERT_EQ(0, hab_hierarchy_plan(&self->h, self->domains[0], 1024, 1024, 0, &plan));
	EXPECT_EQ(2, plan.level);
	ASSERT_EQ(0, hab_hierarchy_plan(&self->h, self->domains[0], 1025, 1025, 0, &plan));
	EXPECT_EQ(1, plan.level);
	EXPECT_EQ(1025, plan.granted);
	ASSERT_EQ(0, hab_hierarchy_plan(&self->h, self->domains[0], 16385, 16385, 0, &plan));
	EXPECT_EQ(0, plan.level);
}

TEST_F(books, buffers_of_two_packages_are_in_different_blocks)
{
	u64 first, second, size;

	start(self, 32 * MiB, 2, both);
	ASSERT_EQ(0, take(self, 0, 16, 16, &first, &size));
	ASSERT_EQ(0, take(self, 7, 16, 16, &second, &size));
	EXPECT_GE(second - first, 1 * MiB / HAB_GRANULE);
	ASSERT_EQ(0, take(self, 1, 16, 16, &second, &size));
	EXPECT_LT(second - first, 1 * MiB / HAB_GRANULE);
}

TEST_F(books, invalid_words_are_counted_and_free_nothing)
{
	static const u64 invalid[] = { ~0ull, HAB_WORD(0, 1), HAB_WORD(1, HAB_WORD_FREE_MAX),
				       HAB_WORD(1ull << 37, 5), HAB_WORD(3, 1021) };
	u64 *word, chunk, size, left;
	unsigned int i;

	start(self, 32 * MiB, 1, clab);
	ASSERT_EQ(0, take(self, 0, 16, 16, &chunk, &size));
	ASSERT_EQ(0, take(self, 1, 16, 16, &chunk, &size));
	word = hab_hierarchy_word(&self->h, 1);
	for (i = 0; i < sizeof(invalid) / sizeof(invalid[0]); i++) {
		struct hab_plan plan;

		EXPECT_FALSE(hab_hierarchy_word_free(&self->h, 1, invalid[i], &left));
		EXPECT_EQ(0, left);
		ASSERT_EQ(0, hab_hierarchy_plan(&self->h, self->domains[1], 16, 16, 0, &plan));
		*word = plan.word;
		hab_hierarchy_commit(&self->h, &plan, invalid[i], 0);
		ASSERT_EQ(0, mark(self, plan.chunk, plan.chunk_size));
	}
	EXPECT_EQ(i, self->h.invalid_words);
	/* Within the block, but not up to its end. */
	EXPECT_FALSE(hab_hierarchy_word_free(
		&self->h, 1, HAB_WORD(self->h.levels[0].buffers[1].top + 1, 5), &left));
	EXPECT_EQ(0, left);
}

TEST_F(books, a_word_that_its_user_emptied_is_an_empty_buffer)
{
	u64 chunk, size;

	start(self, 32 * MiB, 1, clab);
	ASSERT_EQ(0, take(self, 0, 100, 100, &chunk, &size));
	*hab_hierarchy_word(&self->h, 0) = 0;
	ASSERT_EQ(0, take(self, 0, 100, 100, &chunk, &size));
	EXPECT_EQ(1024, chunk);
	EXPECT_EQ(0, self->h.invalid_words);
}

TEST_F(books, a_reset_frees_the_whole_arena)
{
	u64 chunk, size;
	u32 at = 0;

	start(self, 32 * MiB, 2, both);
	while (!take(self, rand() % CPUS, 100, 100, &chunk, &size))
		;
	ASSERT_EQ(0, hab_hierarchy_return(&self->h, chunk, 1));
	while (hab_hierarchy_reset(&self->h, &at))
		;
	EXPECT_EQ(0, self->h.free_extents.nr);
	EXPECT_EQ(32 * MiB, books_sum(self));
	ASSERT_EQ(0, take(self, 0, 100, 100, &chunk, &size));
	EXPECT_EQ(0, chunk);
	EXPECT_EQ(1, self->h.resets);
}

TEST_F(books, what_a_buffer_had_left_serves_the_next_refill)
{
	u64 chunk, size, left, next;

	start(self, 32 * MiB, 1, clab);
	/* 64 KiB: 600 granules, then 700 do not fit and leave 424. */
	ASSERT_EQ(0, take(self, 0, 600, 600, &left, &size));
	ASSERT_EQ(0, take(self, 0, 700, 700, &chunk, &size));
	next = self->h.next;
	ASSERT_EQ(0, take(self, 1, 10, 100, &chunk, &size));
	EXPECT_EQ(left + 600, chunk);
	EXPECT_EQ(100, size);
	ASSERT_EQ(0, take(self, 1, 324, 324, &chunk, &size));
	EXPECT_EQ(left + 700, chunk);
	EXPECT_EQ(next, self->h.next);
	EXPECT_EQ(0, self->h.free_extents.nr);
}

TEST_F(books, a_heap_is_full_only_if_no_free_extent_serves)
{
	u64 chunk, size, first;

	start(self, 64 * KiB, 1, clab);
	ASSERT_EQ(0, take(self, 0, 900, 900, &first, &size));
	EXPECT_EQ(-ENOMEM, take(self, 1, 1, 1, &chunk, &size));
	ASSERT_EQ(0, hab_hierarchy_return(&self->h, first + 10, 5));
	EXPECT_EQ(-ENOMEM, take(self, 1, 6, 6, &chunk, &size));
	/* Far less than what is wanted, and all that is free. */
	ASSERT_EQ(0, take(self, 1, 5, 500, &chunk, &size));
	EXPECT_EQ(first + 10, chunk);
	EXPECT_EQ(5, size);
}

TEST_F(books, what_upper_buffers_have_left_serves_before_the_heap_is_full)
{
	u64 chunk, size, sum = 0;
	int cpu;

	/* One block for each package and no more: most of both is still in the PLABs. */
	start(self, 2 * MiB, 2, both);
	ASSERT_EQ(0, take(self, 0, 1, 1, &chunk, &size));
	ASSERT_EQ(0, take(self, 7, 1, 1, &chunk, &size));
	for (cpu = 0; cpu < 4; cpu++) {
		while (!take(self, cpu, 1024, 1024, &chunk, &size))
			sum += size;
	}
	EXPECT_EQ((2 * MiB - 128 * KiB) / HAB_GRANULE, sum);
}

TEST_F(books, returned_memory_is_granted_again_and_only_once)
{
	u64 chunk, size;

	start(self, 32 * MiB, 2, both);
	EXPECT_EQ(-EINVAL, hab_hierarchy_return(&self->h, 0, 1));
	ASSERT_EQ(0, take(self, 0, 500, 500, &chunk, &size));
	EXPECT_EQ(0, hab_hierarchy_return(&self->h, chunk + 100, 400));
	EXPECT_EQ(-EINVAL, hab_hierarchy_return(&self->h, chunk + 499, 1));
	EXPECT_EQ(-EINVAL, hab_hierarchy_return(&self->h, chunk + 50, 51));
	EXPECT_EQ(-EINVAL, hab_hierarchy_return(&self->h, chunk, 0));
	EXPECT_EQ(-EINVAL, hab_hierarchy_return(&self->h, chunk, ~0ull));
	self->handed_out = 100;
	EXPECT_EQ(32 * MiB, books_sum(self));
	ASSERT_EQ(0, take(self, 3, 300, 300, &chunk, &size));
	EXPECT_EQ(100, chunk);
	EXPECT_EQ(400, self->h.returned);
}

TEST_F(books, adjacent_free_extents_are_joined)
{
	u64 chunk, size;

	start(self, 32 * MiB, 1, clab);
	ASSERT_EQ(0, take(self, 0, 300, 300, &chunk, &size));
	ASSERT_EQ(0, hab_hierarchy_return(&self->h, chunk, 100));
	ASSERT_EQ(0, hab_hierarchy_return(&self->h, chunk + 200, 100));
	EXPECT_EQ(2, self->h.free_extents.nr);
	ASSERT_EQ(0, hab_hierarchy_return(&self->h, chunk + 100, 100));
	EXPECT_EQ(1, self->h.free_extents.nr);
	ASSERT_EQ(0, take(self, 1, 300, 300, &chunk, &size));
	EXPECT_EQ(0, chunk);
}

TEST_F(books, of_too_many_free_extents_the_smallest_become_waste)
{
	u64 chunk, size, waste = 0;
	int i;

	start(self, 32 * MiB, 1, plab);
	ASSERT_EQ(0, take(self, 0, 30000, 30000, &chunk, &size));
	for (i = 0; i < HAB_MAX_FREE_EXTENTS + 10; i++)
		ASSERT_EQ(0, hab_hierarchy_return(&self->h, chunk + 200 * i, 1 + i));
	for (i = 0; i < 10; i++)
		waste += 1 + i;
	EXPECT_EQ(HAB_MAX_FREE_EXTENTS, self->h.free_extents.nr);
	EXPECT_EQ(waste, self->h.waste);
	self->handed_out = 30000 - self->h.returned;
	EXPECT_EQ(32 * MiB, books_sum(self));
}

/* Every other 200 granules of the arena become waste, then the others. */
TEST_F(books, waste_is_recovered_when_all_around_it_is_free)
{
	u64 chunk, size, all, i;
	int round;

	start(self, 32 * MiB, 1, plab);
	all = 32 * MiB / HAB_GRANULE;
	ASSERT_EQ(0, take(self, 0, all, all, &chunk, &size));
	for (round = 0; round < 2; round++) {
		for (i = 200 * round; i < all; i += 400)
			ASSERT_EQ(0, hab_hierarchy_return(&self->h, i, min(200ull, all - i)));
		if (!round) {
			EXPECT_EQ(-ENOMEM, take(self, 0, 201, 201, &chunk, &size));
			EXPECT_LT(all / 3, self->h.waste);
		}
	}
	ASSERT_EQ(0, take(self, 0, all, all, &chunk, &size));
	EXPECT_EQ(0, self->h.waste);
}

struct held {
	u64 chunk, size;
};

/* Takes all that there is by chunks of @size; returns its sum. */
static u64 take_all(struct _test_data_books *self, u64 want)
{
	u64 chunk, size, sum = 0;
	int cpu, failed = 0;

	for (cpu = 0; failed < CPUS; cpu = (cpu + 1) % CPUS) {
		if (take(self, cpu, want, want, &chunk, &size)) {
			failed++;
			continue;
		}
		failed = 0;
		sum += size;
		if (mark(self, chunk, size))
			return 0;
	}
	return sum;
}

/*
 * Chunks of all sizes are taken on all CPUs and returned in any order, until the heap is full, many
 * times. In the end all are returned and the CPUs' buffers are retired.
 */
static void make_history(struct __test_metadata *_metadata, struct _test_data_books *self)
{
	static struct held held[40000];
	u64 chunk, size, want;
	int nr = 0, i, step, cpu;

	for (step = 0; step < 100000; step++) {
		bool grow = step / 10000 % 2 == 0;

		if (nr < 40000 && rand() % 8 < (grow ? 6 : 2)) {
			want = 1 + rand() % (rand() % 16 ? 64 : rand() % 64 ? 512 : 20000);
			if (take(self, rand() % CPUS, want, want, &chunk, &size))
				continue;
			ASSERT_EQ(0, mark(self, chunk, size));
			held[nr++] = (struct held){ chunk, size };
		} else if (nr) {
			i = rand() % nr;
			memset(self->used + held[i].chunk, 0, held[i].size);
			self->handed_out -= held[i].size;
			ASSERT_EQ(0, hab_hierarchy_return(&self->h, held[i].chunk, held[i].size));
			held[i] = held[--nr];
		}
	}
	EXPECT_EQ(self->h.arena * HAB_GRANULE, books_sum(self));
	while (nr--)
		ASSERT_EQ(0, hab_hierarchy_return(&self->h, held[nr].chunk, held[nr].size));
	memset(self->used, 0, self->h.arena);
	self->handed_out = 0;
	for (cpu = 0; cpu < CPUS; cpu++)
		hab_hierarchy_retire(&self->h, self->h.nr_levels - 1, cpu);
	EXPECT_EQ(self->h.arena * HAB_GRANULE, books_sum(self));
}

TEST_F(books, after_any_history_99_percent_of_the_arena_can_be_handed_out_again)
{
	static const struct {
		const struct hab_level *levels;
		u32 nr;
		u64 want; /* granules */
	} layouts[] = {
		{ clab, 1, 64 },  { clab, 1, 512 }, { plab, 1, 16 },
		{ both, 2, 512 }, { both, 2, 64 },  { three, 3, 64 },
	};
	size_t i;

	srand(1);
	for (i = 0; i < sizeof(layouts) / sizeof(layouts[0]); i++) {
		u64 again;

		start(self, 32 * MiB, layouts[i].nr, layouts[i].levels);
		make_history(_metadata, self);
		again = take_all(self, layouts[i].want);
		TH_LOG("layout %zu, chunks of %lu granules: %.2f %%", i, (long)layouts[i].want,
		       100.0 * again / self->h.arena);
		EXPECT_LE(self->h.arena * 99 / 100, again);
		EXPECT_EQ(self->h.arena * HAB_GRANULE, books_sum(self));
		books_teardown(_metadata, self, NULL);
		memset(self, 0, sizeof(*self));
	}
}

static u64 largest_extent(const struct hab_free_extents *set)
{
	u64 most = 0;
	u32 i;

	for (i = 0; i < set->nr; i++)
		most = max(most, set->extents[i].size);
	return most;
}

TEST(the_largest_free_extent_is_found_after_any_adds_and_takes)
{
	static struct hab_free_extents set;
	u64 start = 0, most, least;
	int i, n;

	srandom(1);
	hab_free_extents_init(&set, 1ull << 30);
	for (n = 0; n < 20000; n++) {
		if (random() % 2) {
			struct hab_extent extent = { .start = start, .size = 1 + random() % 1000 };

			/* A gap keeps them apart. */
			start += extent.size + 1;
			hab_free_extents_add(&set, extent);
		}
		most = largest_extent(&set);
		least = 1 + random() % 1000;
		i = hab_free_extents_largest(&set, least);
		ASSERT_EQ(most >= least, i >= 0);
		if (i < 0)
			continue;
		ASSERT_EQ(most, set.extents[i].size);
		hab_free_extents_take(&set, i, 1 + random() % most);
	}
}

TEST_F(books, what_a_retired_buffer_has_left_is_granted_to_other_domains)
{
	u64 chunk, size, first;

	start(self, 32 * MiB, 2, both);
	ASSERT_EQ(0, take(self, 7, 24, 24, &first, &size));
	hab_hierarchy_retire(&self->h, 1, 7);
	EXPECT_EQ(0, *hab_hierarchy_word(&self->h, 7));
	hab_hierarchy_retire(&self->h, 0, 1);
	/* What both levels had left is adjacent. */
	EXPECT_EQ(1, self->h.free_extents.nr);
	ASSERT_EQ(0, take(self, 0, 1000, 1000, &chunk, &size));
	EXPECT_EQ(first + 24, chunk);
	ASSERT_EQ(0, take(self, 7, 16, 16, &chunk, &size));
	EXPECT_EQ(0, self->h.invalid_words);
	self->handed_out = 24 + 1000 + 16;
	EXPECT_EQ(32 * MiB, books_sum(self));
}

#define MANY 1024 /* domains */

/* Books of many CPUs, whose upper buffers all have something left, and no memory else. */
static void start_many(struct _test_data_books *self)
{
	static const struct hab_level levels[] = { { 4 * KiB, HAB_DOMAIN_CORE, 0 },
						   { 1 * KiB, HAB_DOMAIN_CPU, 0 } };
	struct hab_plan plan;
	u32 cpu, l;

	self->h.words = calloc(MANY, HAB_WORD_STRIDE);
	for (l = 0; l < 2; l++)
		self->h.levels[l].buffers = calloc(MANY, sizeof(struct hab_buffer));
	hab_hierarchy_init(&self->h, MANY * 4 * KiB, 2, levels, MANY);
	for (cpu = 0; cpu < MANY; cpu++) {
		u32 domains[] = { cpu, cpu };

		hab_hierarchy_plan(&self->h, domains, 1, 1, 0, &plan);
		*hab_hierarchy_word(&self->h, cpu) = plan.word;
		hab_hierarchy_commit(&self->h, &plan, 0, 0);
	}
}

/* Buffers, of both levels, that are not empty. */
static u32 count_filled(const struct hab_hierarchy *h)
{
	u32 l, d, sum = 0;

	for (l = 0; l < 2; l++) {
		for (d = 0; d < MANY; d++)
			sum += h->levels[l].buffers[d].top != h->levels[l].buffers[d].end;
	}
	return sum;
}

TEST_F(books, a_step_works_on_few_buffers_of_a_machine_of_any_size)
{
	struct hab_ioc_stats stats = { .size = sizeof(stats) };
	u32 domains[] = { 0, 0 }, at = 0, before, steps = 0;
	struct hab_plan plan;
	bool more;

	start_many(self);
	ASSERT_EQ(2 * MANY, count_filled(&self->h));
	/* More than any buffer has left. */
	ASSERT_EQ(-ENOMEM, hab_hierarchy_plan(&self->h, domains, 60, 60, 0, &plan));
	EXPECT_EQ(2 * MANY, count_filled(&self->h));
	for (before = 2 * MANY; before > MANY; before -= HAB_STEP_BUFFERS) {
		EXPECT_EQ(true, hab_hierarchy_collect(&self->h, &at));
		EXPECT_EQ(before - HAB_STEP_BUFFERS, count_filled(&self->h));
	}
	/* Then the segments. */
	for (steps = 0; hab_hierarchy_collect(&self->h, &at); steps++)
		;
	EXPECT_GE(HAB_SEGMENTS / HAB_STEP_BUFFERS, steps);
	EXPECT_EQ(MANY, count_filled(&self->h));

	for (at = 0, steps = 1; hab_hierarchy_stats(&self->h, &at, &stats); steps++)
		EXPECT_EQ(HAB_STEP_BUFFERS / 2 * steps, at);
	EXPECT_EQ(MANY / (HAB_STEP_BUFFERS / 2), steps);

	at = 0;
	before = count_filled(&self->h);
	do {
		more = hab_hierarchy_reset(&self->h, &at);
		EXPECT_EQ(before - HAB_STEP_BUFFERS / 2, count_filled(&self->h));
		before -= HAB_STEP_BUFFERS / 2;
	} while (more);
	EXPECT_EQ(0, before);
}

#define TOOK 1000 /* ns, each refill of the test below */

/* The size of the next block of CPU 0, at time @now. */
static u64 next_block(struct _test_data_books *self, u64 now)
{
	struct hab_plan plan;

	if (hab_hierarchy_plan(&self->h, self->domains[0], 1, 1, now, &plan))
		return 0;
	*hab_hierarchy_word(&self->h, 0) = 0;
	hab_hierarchy_commit(&self->h, &plan, 0, now + TOOK);
	return plan.granted;
}

TEST_F(books, growing_buffers_follow_the_rate_of_refills_within_their_bounds)
{
	static const struct hab_level growing = { 1 * MiB, HAB_DOMAIN_CPU, HAB_LEVEL_GROWING };
	u64 most = 1 * MiB / HAB_GRANULE, size = most / 64, now = 1;
	u64 enough = TOOK * HAB_GROWTH_ENOUGH;
	int i;

	/* The bound by free memory, a sixteenth, is less than the size. */
	start(self, 16 * MiB, 1, &growing);
	EXPECT_TRUE(hab_hierarchy_growing(&self->h));
	EXPECT_EQ(size, next_block(self, now));
	for (i = 0; i < 10; i++) {
		now += enough / 2;
		size = min(2 * size, most);
		EXPECT_EQ(size, next_block(self, now));
	}
	now += 2 * enough;
	EXPECT_EQ(most, next_block(self, now));
	for (i = 0; i < 10; i++) {
		now += 100 * enough;
		size = max(size / 2, most / 64);
		EXPECT_EQ(size, next_block(self, now));
	}
}

TEST_F(books, the_blocks_of_refills_that_queue_for_the_lock_double)
{
	static const struct hab_level growing = { 1 * MiB, HAB_DOMAIN_CPU, HAB_LEVEL_GROWING };
	u64 most = 1 * MiB / HAB_GRANULE, size = most / 64, now = 1;
	struct hab_plan plan;
	int i;

	start(self, 16 * MiB, 1, &growing);
	ASSERT_EQ(size, next_block(self, now));
	for (i = 0; i < 6; i++) {
		/* Each began with the first one and gets the lock when the last one is done. */
		ASSERT_EQ(0, hab_hierarchy_plan(&self->h, self->domains[0], 1, 1, now, &plan));
		*hab_hierarchy_word(&self->h, 0) = 0;
		hab_hierarchy_commit(&self->h, &plan, 0, now + (2 + i) * TOOK);
		size = min(2 * size, most);
		EXPECT_EQ(size, plan.granted);
	}
	/* Nor does a clock that goes back count as a long time. */
	ASSERT_EQ(0, hab_hierarchy_plan(&self->h, self->domains[1], 1, 1, now, &plan));
	hab_hierarchy_commit(&self->h, &plan, 0, now - 1);
	EXPECT_EQ(0, self->h.levels[0].buffers[1].took);
}

TEST_F(books, growing_buffers_are_large_while_much_is_free_and_end_at_their_size)
{
	static const struct hab_level growing = { 64 * KiB, HAB_DOMAIN_CPU, HAB_LEVEL_GROWING };
	u64 arena = 64 * MiB / HAB_GRANULE, bytes = 64 * KiB / HAB_GRANULE;
	u64 size, last = 0, largest = 0, used = 0, now = 1;
	int refills = 0;

	start(self, 64 * MiB, 1, &growing);
	for (; (size = next_block(self, now)); now += TOOK) {
		EXPECT_LE(size, max(bytes, min(HAB_GROWTH_GUIDED * bytes * (arena - used) / arena,
					       (arena - used) / 16)));
		used += size;
		largest = max(largest, size);
		last = size;
		refills++;
	}
	EXPECT_EQ(arena, used);
	EXPECT_GT(largest, HAB_GROWTH_GUIDED * bytes * 3 / 4);
	EXPECT_LE(last, bytes);
	/* 1,024 blocks if all had one size. */
	EXPECT_LT(refills, 700);
}

TEST(invalid_sizes_and_domains_are_refused)
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
	level.flags = 2;
	EXPECT_EQ(-EINVAL, hab_hierarchy_check(1 * MiB, 1, &level));
}

TEST(a_lower_level_larger_than_the_one_above_it_is_refused)
{
	struct hab_level upside_down[] = { both[1], both[0] };

	EXPECT_EQ(0, hab_hierarchy_check(32 * MiB, 2, both));
	EXPECT_EQ(-EINVAL, hab_hierarchy_check(32 * MiB, 2, upside_down));
}

TEST_HARNESS_MAIN
