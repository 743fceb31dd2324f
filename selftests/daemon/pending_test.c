// SPDX-License-Identifier: GPL-2.0-only
/* Pending samples (daemon/collect/pending.c), from their record to the end of their window. */
#include <stdlib.h>

#include "kselftest_harness.h"
#include "daemon/collect/pending.h"
#include "daemon/shared/limits.h"

#define SECOND	1000000000ull
#define CERTAIN (1ull << 32)

struct sums {
	uint64_t samples;
	uint64_t bytes;
	uint64_t weight;
	uint64_t estimate;
};

static void add(void *context, uint32_t number, const struct stack_key *key,
		const struct stack_counts *counts, const struct in_use *in_use)
{
	struct sums *sums = context;

	(void)in_use;
	(void)key;
	(void)number;
	sums->samples += counts->samples;
	sums->bytes += counts->bytes;
	sums->weight += counts->weight;
	sums->estimate += counts->estimate;
}

FIXTURE(pending)
{
	struct stack_table *stacks;
	struct pending *pending;
};

FIXTURE_SETUP(pending)
{
	self->stacks = stacks_new(100);
	self->pending = pending_new(self->stacks);
}

FIXTURE_TEARDOWN(pending)
{
	pending_free(self->pending);
	stacks_free(self->stacks);
}

static struct sums sums_of(struct _test_data_pending *self)
{
	struct sums sums = { 0 };

	stacks_visit(self->stacks, NULL, add, &sums);
	return sums;
}

/* Candidate @candidate of a window with @quota: one event of 4 is a candidate. */
static void take(struct _test_data_pending *self, uint64_t window, uint32_t quota, uint32_t slot,
		 uint64_t candidate, uint64_t now_ns)
{
	struct sample *sample = calloc(1, sizeof(*sample));
	struct stack_key *key = calloc(1, sizeof(*key) + 3 * sizeof(uint64_t));

	*key = (struct stack_key){ .pid = 1, .nr_frames = 3 };
	key->frames[0] = 1;
	sample->key = key;
	sample->record = (struct hab_record_sample){
		.head.time_ns = now_ns,
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
	pending_announce(self->pending, &sample->record, now_ns);
	pending_add(self->pending, sample);
}

static void end(struct _test_data_pending *self, uint64_t window, uint32_t quota,
		uint64_t candidates, uint64_t now_ns)
{
	struct hab_record_window end = { .window = window, .candidates = candidates, .quota = quota };

	pending_end_window(self->pending, &end, now_ns);
}

TEST_F(pending, the_last_in_each_slot_stays_with_the_final_probability)
{
	struct sums sums;

	take(self, 1, 2, 0, 1, SECOND);
	take(self, 1, 2, 1, 2, SECOND);
	take(self, 1, 2, 1, 5, SECOND);
	end(self, 1, 2, 8, SECOND);
	pending_flush(self->pending, 2 * SECOND);
	sums = sums_of(self);
	EXPECT_EQ(2, sums.samples);
	EXPECT_EQ(1 + 5, sums.bytes);
	EXPECT_EQ(30, sums.weight);
	/* 1/4 of the events were candidates, and 2 of 8 of these were kept. */
	EXPECT_EQ((1 + 5) * 16, sums.estimate);
	EXPECT_EQ(1, pending_counts(self->pending)->replaced);
	EXPECT_EQ(0, pending_counts(self->pending)->unfinished);
}

TEST_F(pending, stacks_may_come_in_any_order)
{
	take(self, 1, 1, 0, 5, SECOND);
	take(self, 1, 1, 0, 1, SECOND);
	end(self, 1, 1, 5, SECOND);
	pending_flush(self->pending, 2 * SECOND);
	EXPECT_EQ(5, sums_of(self).bytes);
	EXPECT_EQ(20, sums_of(self).weight);
}

TEST_F(pending, a_sample_that_is_pending_at_a_mark_counts_after_it)
{
	struct stack_mark *mark;
	struct sums first = { 0 }, second = { 0 };

	take(self, 1, 1, 0, 1, SECOND);
	stacks_visit_settled(self->stacks, NULL, add, &first);
	mark = stacks_mark(self->stacks, 0, false);
	EXPECT_EQ(0, first.samples);
	end(self, 1, 1, 1, SECOND);
	pending_flush(self->pending, 2 * SECOND);
	stacks_visit(self->stacks, mark, add, &second);
	EXPECT_EQ(1, second.samples);
	stacks_unmark(self->stacks, mark);
}

static uint64_t bytes_since(struct _test_data_pending *self, const struct stack_mark *mark)
{
	struct sums sums = { 0 };

	stacks_visit(self->stacks, mark, add, &sums);
	return sums.bytes;
}

TEST_F(pending, a_sample_of_before_the_start_of_a_span_is_not_in_it)
{
	struct stack_mark *mark, *next;

	take(self, 1, 3, 0, 1, SECOND);
	mark = stacks_mark(self->stacks, SECOND + 1, false);
	take(self, 1, 3, 1, 2, SECOND + 1);
	EXPECT_EQ(2, bytes_since(self, mark));
	next = stacks_mark_next(self->stacks, mark, false);
	EXPECT_EQ(2, bytes_since(self, next));
	end(self, 1, 3, 2, SECOND + 2);
	pending_flush(self->pending, 2 * SECOND);
	EXPECT_EQ(2, bytes_since(self, mark));
	EXPECT_EQ(2, bytes_since(self, next));
	EXPECT_EQ(3, bytes_since(self, NULL));
	stacks_unmark(self->stacks, mark);
	EXPECT_EQ(1, limits_own.used[LIMITED_MARKS] > 0);
	stacks_unmark(self->stacks, next);
	EXPECT_EQ(0, limits_own.used[LIMITED_MARKS]);
}

static void count_event(void *context, const struct logged_sample *sample)
{
	unsigned int *nr = context;

	(void)sample;
	*nr += 1;
}

TEST_F(pending, an_event_of_before_the_start_of_a_span_is_not_in_it)
{
	struct stack_mark *mark;
	unsigned int nr = 0;

	take(self, 1, 3, 0, 1, SECOND);
	mark = stacks_mark(self->stacks, SECOND + 1, false);
	take(self, 1, 3, 1, 2, SECOND + 1);
	end(self, 1, 3, 2, SECOND + 2);
	pending_flush(self->pending, 2 * SECOND);
	stacks_visit_log(self->stacks, mark, count_event, &nr);
	EXPECT_EQ(1, nr);
	stacks_unmark(self->stacks, mark);
}

TEST_F(pending, a_sample_that_comes_late_still_belongs_to_its_window)
{
	take(self, 1, 1, 0, 1, SECOND);
	end(self, 1, 1, 4, SECOND);
	pending_flush(self->pending, SECOND + SECOND / 10);
	take(self, 1, 1, 0, 3, SECOND + SECOND / 5);
	pending_flush(self->pending, 2 * SECOND);
	EXPECT_EQ(1, sums_of(self).samples);
	EXPECT_EQ(3 * 16, sums_of(self).estimate);
}

TEST_F(pending, pending_samples_are_shown_and_count_once_when_final)
{
	take(self, 1, 2, 0, 1, SECOND);
	EXPECT_EQ(1, sums_of(self).samples);
	EXPECT_EQ(4, sums_of(self).estimate);
	take(self, 1, 2, 0, 3, SECOND);
	/* One more is expected after the third: 2 of 4. */
	EXPECT_EQ(1, sums_of(self).samples);
	EXPECT_EQ(3 * 8, sums_of(self).estimate);
	end(self, 1, 2, 4, SECOND);
	pending_flush(self->pending, 2 * SECOND);
	EXPECT_EQ(1, sums_of(self).samples);
	EXPECT_EQ(3 * 8, sums_of(self).estimate);
}

TEST_F(pending, a_window_whose_end_is_lost_is_finished_and_counted)
{
	take(self, 1, 2, 0, 1, SECOND);
	take(self, 1, 2, 1, 7, SECOND);
	pending_flush(self->pending, 6 * SECOND);
	EXPECT_EQ(0, pending_counts(self->pending)->unfinished);
	pending_flush(self->pending, 7 * SECOND);
	EXPECT_EQ(1, pending_counts(self->pending)->unfinished);
	EXPECT_EQ(2, sums_of(self).samples);
}

TEST_F(pending, memory_is_bounded_and_no_sample_is_lost_by_that)
{
	uint32_t i;

	for (i = 0; i < 100000; i++)
		take(self, 1 + i / 10000, 10000, i % 10000, i % 10000 + 1, SECOND);
	EXPECT_GT(pending_counts(self->pending)->unfinished, 0);
	EXPECT_EQ(100000, sums_of(self).samples);
	for (i = 0; i < 10; i++)
		end(self, 1 + i, 10000, 10000, SECOND);
	pending_flush(self->pending, 2 * SECOND);
	EXPECT_LE(pending_counts(self->pending)->unfinished, 10);
	EXPECT_EQ(100000, sums_of(self).samples);
	EXPECT_EQ(10ull * 10000 * 10001 / 2 * 4, sums_of(self).estimate);
}

TEST_F(pending, an_impossible_slot_and_an_unknown_window_take_no_memory)
{
	take(self, 1, UINT32_MAX, UINT32_MAX - 1, 1, SECOND);
	end(self, 77, 1, 1, SECOND);
	EXPECT_EQ(1, sums_of(self).samples);
	pending_flush_all(self->pending);
	EXPECT_EQ(1, sums_of(self).samples);
}

TEST_F(pending, a_sample_without_a_window_is_final_at_once)
{
	struct sums sums = { 0 };

	take(self, 0, 0, 0, 7, SECOND);
	stacks_visit_settled(self->stacks, NULL, add, &sums);
	EXPECT_EQ(1, sums.samples);
	EXPECT_EQ(7 * 4, sums.estimate);
}

TEST_HARNESS_MAIN
