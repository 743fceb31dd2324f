// SPDX-License-Identifier: GPL-2.0-only
/* daemon/samples/hold.c: samples between their coming and the end of their window. */
#include <stdlib.h>

#include "kselftest_harness.h"
#include "daemon/samples/pending.h"

#define SECOND	1000000000ull
#define CERTAIN (1ull << 32)

struct sums {
	uint64_t samples;
	uint64_t bytes;
	uint64_t weight;
	uint64_t estimate;
};

static void add(void *context, uint32_t number, const struct stack_key *key,
		const struct stack_counts *counts)
{
	struct sums *sums = context;

	(void)key;
	(void)number;
	sums->samples += counts->samples;
	sums->bytes += counts->bytes;
	sums->weight += counts->weight;
	sums->estimate += counts->estimate;
}

FIXTURE(hold)
{
	struct stack_table *stacks;
	struct hold *hold;
};

FIXTURE_SETUP(hold)
{
	self->stacks = stacks_new(100);
	self->hold = hold_new(self->stacks);
}

FIXTURE_TEARDOWN(hold)
{
	hold_free(self->hold);
	stacks_free(self->stacks);
}

static struct sums sums_of(struct _test_data_hold *self)
{
	struct sums sums = { 0 };

	stacks_visit(self->stacks, NULL, add, &sums);
	return sums;
}

/* Candidate @candidate of a window with @quota, kept for now with probability 1/4. */
static void take(struct _test_data_hold *self, uint64_t window, uint32_t quota, uint32_t slot,
		 uint64_t candidate, uint64_t now_ns)
{
	const uint64_t frames[] = { 1, 2, 3 };
	struct stack_key key = { .pid = 1, .nr_frames = 3, .frames = frames };
	struct stack_event event = { .time_ns = now_ns };
	struct hab_record_sample sample = {
		.window = window,
		.quota = quota,
		.slot = slot,
		.candidate = candidate,
		.window_ms = 200,
		.probability = CERTAIN / 4,
		.parts = 1,
		.bytes = candidate,
		.weight = 10,
	};

	hold_announce(self->hold, &sample, now_ns);
	hold_add(self->hold, &sample, &key, &event, now_ns);
}

static void end(struct _test_data_hold *self, uint64_t window, uint32_t quota, uint64_t candidates,
		uint64_t now_ns)
{
	struct hab_window_event event = { window, candidates, quota, 0 };

	hold_end(self->hold, &event, now_ns);
}

TEST_F(hold, the_last_in_each_slot_stays_with_the_final_probability)
{
	struct sums sums;

	take(self, 1, 2, 0, 1, SECOND);
	take(self, 1, 2, 1, 2, SECOND);
	take(self, 1, 2, 1, 5, SECOND);
	end(self, 1, 2, 8, SECOND);
	hold_flush(self->hold, 2 * SECOND);
	sums = sums_of(self);
	EXPECT_EQ(2, sums.samples);
	EXPECT_EQ(1 + 5, sums.bytes);
	EXPECT_EQ(30, sums.weight);
	/* 1/4 of the events were candidates, and 2 of 8 of these were kept. */
	EXPECT_EQ((1 + 5) * 16, sums.estimate);
	EXPECT_EQ(1, hold_counts(self->hold)->replaced);
	EXPECT_EQ(0, hold_counts(self->hold)->unfinished);
}

TEST_F(hold, the_order_in_which_stacks_came_does_not_matter)
{
	take(self, 1, 1, 0, 5, SECOND);
	take(self, 1, 1, 0, 1, SECOND);
	end(self, 1, 1, 5, SECOND);
	hold_flush(self->hold, 2 * SECOND);
	EXPECT_EQ(5, sums_of(self).bytes);
	EXPECT_EQ(20, sums_of(self).weight);
}

TEST_F(hold, a_sample_that_is_held_at_a_mark_is_only_in_what_follows)
{
	struct stack_mark *mark;
	struct sums first = { 0 }, second = { 0 };

	take(self, 1, 1, 0, 1, SECOND);
	stacks_visit_settled(self->stacks, NULL, add, &first);
	mark = stacks_mark(self->stacks);
	EXPECT_EQ(0, first.samples);
	end(self, 1, 1, 1, SECOND);
	hold_flush(self->hold, 2 * SECOND);
	stacks_visit(self->stacks, mark, add, &second);
	EXPECT_EQ(1, second.samples);
	stacks_unmark(self->stacks, mark);
}

TEST_F(hold, a_straggler_still_belongs_to_its_window)
{
	take(self, 1, 1, 0, 1, SECOND);
	end(self, 1, 1, 4, SECOND);
	hold_flush(self->hold, SECOND + SECOND / 10);
	take(self, 1, 1, 0, 3, SECOND + SECOND / 5);
	hold_flush(self->hold, 2 * SECOND);
	EXPECT_EQ(1, sums_of(self).samples);
	EXPECT_EQ(3 * 16, sums_of(self).estimate);
}

TEST_F(hold, what_is_held_is_shown_and_counts_once_when_it_is_final)
{
	take(self, 1, 2, 0, 1, SECOND);
	EXPECT_EQ(1, sums_of(self).samples);
	EXPECT_EQ(4, sums_of(self).estimate);
	take(self, 1, 2, 0, 3, SECOND);
	/* One after the third is expected to have come: 2 of 4. */
	EXPECT_EQ(1, sums_of(self).samples);
	EXPECT_EQ(3 * 8, sums_of(self).estimate);
	end(self, 1, 2, 4, SECOND);
	hold_flush(self->hold, 2 * SECOND);
	EXPECT_EQ(1, sums_of(self).samples);
	EXPECT_EQ(3 * 8, sums_of(self).estimate);
}

TEST_F(hold, a_window_whose_end_does_not_come_is_finished_and_counted)
{
	take(self, 1, 2, 0, 1, SECOND);
	take(self, 1, 2, 1, 7, SECOND);
	hold_flush(self->hold, 6 * SECOND);
	EXPECT_EQ(0, hold_counts(self->hold)->unfinished);
	hold_flush(self->hold, 7 * SECOND);
	EXPECT_EQ(1, hold_counts(self->hold)->unfinished);
	EXPECT_EQ(2, sums_of(self).samples);
}

TEST_F(hold, memory_is_bounded_and_no_sample_is_lost_to_that)
{
	uint32_t i;

	for (i = 0; i < 100000; i++)
		take(self, 1 + i / 10000, 10000, i % 10000, i % 10000 + 1, SECOND);
	EXPECT_GT(hold_counts(self->hold)->early, 0);
	EXPECT_EQ(100000, sums_of(self).samples);
	for (i = 0; i < 10; i++)
		end(self, 1 + i, 10000, 10000, SECOND);
	hold_flush(self->hold, 2 * SECOND);
	EXPECT_EQ(100000, sums_of(self).samples);
	EXPECT_EQ(10ull * 10000 * 10001 / 2 * 4, sums_of(self).estimate);
}

TEST_F(hold, an_impossible_slot_takes_no_memory_and_an_unknown_end_none)
{
	take(self, 1, UINT32_MAX, UINT32_MAX - 1, 1, SECOND);
	end(self, 77, 1, 1, SECOND);
	EXPECT_EQ(1, sums_of(self).samples);
	hold_flush_all(self->hold);
	EXPECT_EQ(1, sums_of(self).samples);
}

TEST_HARNESS_MAIN
