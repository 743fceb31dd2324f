// SPDX-License-Identifier: GPL-2.0-only
/*
 * Memory that buffers have left or that is returned: it is granted again, or is waste.
 */
#include "books.h"

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

TEST_HARNESS_MAIN
