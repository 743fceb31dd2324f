// SPDX-License-Identifier: GPL-2.0-only
/*
 * The books of core/hierarchy without threads or kernel.
 */
#include "books.h"
#include "core/hierarchy/block_size.h"
#include "core/hierarchy/refill.h"

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
	static struct hab_hierarchy before;
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
	for (before = 2 * MANY; before > MANY; before--) {
		EXPECT_EQ(true, hab_hierarchy_collect(&self->h, &at));
		EXPECT_EQ(before - 1, count_filled(&self->h));
	}
	/* Then the segments. */
	for (steps = 0; hab_hierarchy_collect(&self->h, &at); steps++)
		;
	EXPECT_GE(HAB_SEGMENTS, steps);
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

static u64 no_clock(const struct hab_hierarchy *h)
{
	(void)h;
	return 0;
}

/* By the kernel, of one granule: the chunk. */
static u64 refill_of(struct hab_hierarchy *h, const u32 *domains)
{
	struct hab_plan plan;

	return hab_hierarchy_refill(h, domains, 1, 1, 0, no_clock, &plan) ? ~0ull : plan.chunk;
}

TEST_F(books, a_block_that_is_written_back_whole_has_no_chunk_that_refills_have_granted)
{
	u64 *word, chunk[3], size;
	u32 i;

	start(self, 32 * MiB, 1, clab);
	size = clab[0].bytes / HAB_GRANULE;
	word = hab_hierarchy_word(&self->h, self->domains[0][0]);
	/* The first one is of a fresh block, the second one of what that has left. */
	for (i = 0; i < 3; i++) {
		chunk[i] = refill_of(&self->h, self->domains[0]);
		if (i)
			*word = HAB_WORD(chunk[0], size);
	}
	EXPECT_EQ(chunk[0] + 1, chunk[1]);
	EXPECT_LE(chunk[0] + size, chunk[2]);
	EXPECT_EQ(1, self->h.invalid_words);
	*word = HAB_WORD(chunk[2], size);
	EXPECT_NE(chunk[2], refill_of(&self->h, self->domains[0]));
}

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
