// SPDX-License-Identifier: GPL-2.0-only
/*
 * The division of a window's quota among users and their processes: core/throttle/max_min.c by
 * itself, and the throttler with many keys on a mock clock.
 */
#include <math.h>

#include "kselftest_harness.h"
#include "core/throttle/throttle.h"
#include "reader.h"

#define QUIET 20
#define HEAVY 1000

static u64 random_number = 1;

static u64 next_random(void)
{
	return hab_mix(random_number++ * HAB_MIX_STEP);
}

static u64 sum_of(const struct hab_claim *claims, u32 count)
{
	u64 sum = 0;
	u32 i;

	for (i = 0; i < count; i++)
		sum += claims[i].quota;
	return sum;
}

TEST(the_whole_quota_is_divided_max_min_fairly)
{
	struct hab_claim claims[50];
	u64 quota, most, least;
	u32 count, round, i;

	for (round = 0; round < 20000; round++) {
		count = 1 + next_random() % 50;
		quota = count + next_random() % 2000;
		for (i = 0; i < count; i++)
			claims[i].demand = 1 + next_random() % (next_random() % 2 ? 5 : 500);
		hab_max_min_divide(claims, count, quota, next_random());
		ASSERT_EQ(quota, sum_of(claims, count));
		/* No claim below its demand is 2 below another. */
		for (most = 0, least = ~0ull, i = 0; i < count; i++) {
			most = max(most, (u64)claims[i].quota);
			if (claims[i].quota < claims[i].demand)
				least = min(least, (u64)claims[i].quota);
			ASSERT_GE(claims[i].quota, 1);
		}
		if (least != ~0ull)
			ASSERT_LE(most, least + 1);
	}
}

TEST(one_claim_gets_all_and_a_small_one_its_demand)
{
	struct hab_claim claims[2] = { { .demand = 3 }, { .demand = 100000 } };

	hab_max_min_divide(claims, 1, 500, 0);
	EXPECT_EQ(500, claims[0].quota);
	hab_max_min_divide(claims, 2, 30, ~0ull);
	EXPECT_EQ(3, claims[0].quota);
	EXPECT_EQ(27, claims[1].quota);
}

TEST(claims_beyond_the_quota_all_have_the_same_chance)
{
	struct hab_claim claims[40];
	u32 got[40] = { 0 }, round, i;

	for (i = 0; i < 40; i++)
		claims[i].demand = 1 + i;
	for (round = 0; round < 40000; round++) {
		hab_max_min_divide(claims, 40, 7, next_random());
		ASSERT_EQ(7, sum_of(claims, 40));
		for (i = 0; i < 40; i++)
			got[i] += claims[i].quota;
	}
	/* 40000 * 7 / 40 = 7000, standard deviation 76. */
	for (i = 0; i < 40; i++) {
		EXPECT_GT(got[i], 7000 - 4 * 76);
		EXPECT_LT(got[i], 7000 + 4 * 76);
	}
}

/* @nr claims of random groups below @nr_groups. */
static void make_claims(struct hab_claim *claims, u32 nr, u32 nr_groups)
{
	u32 i;

	for (i = 0; i < nr; i++) {
		claims[i].group = next_random() % nr_groups;
		claims[i].demand = 1 + next_random() % (next_random() % 2 ? 5 : 500);
		claims[i].share = i;
	}
}

/* No claim below its demand is 2 below another. */
static bool is_max_min(const struct hab_claim *claims, u32 count)
{
	u64 most = 0, least = ~0ull;
	u32 i;

	for (i = 0; i < count; i++) {
		most = max(most, (u64)claims[i].quota);
		if (claims[i].quota < claims[i].demand)
			least = min(least, (u64)claims[i].quota);
	}
	return least == ~0ull || most <= least + 1;
}

TEST(the_quota_is_divided_max_min_fairly_among_groups_and_within_each)
{
	struct hab_claim claims[50], groups[50], sums[8];
	u32 count, round, i, g, nr, end;
	u64 quota;

	for (round = 0; round < 20000; round++) {
		count = 1 + next_random() % 50;
		quota = next_random() % 2000;
		make_claims(claims, count, 8);
		hab_max_min_divide_groups(claims, count, groups, quota, next_random());
		ASSERT_EQ(quota, sum_of(claims, count));
		memset(sums, 0, sizeof(sums));
		for (nr = 0, i = 0; i < count; i = end, nr++) {
			for (end = i; end < count && claims[end].group == claims[i].group; end++) {
				sums[nr].demand += claims[end].demand;
				sums[nr].quota += claims[end].quota;
			}
			ASSERT_TRUE(is_max_min(claims + i, end - i));
		}
		ASSERT_TRUE(is_max_min(sums, nr));
		/* Each group is there once. */
		for (g = 0, i = 1; i < count; i++) {
			ASSERT_LE(claims[i - 1].group, claims[i].group);
			g += claims[i - 1].group != claims[i].group;
		}
		ASSERT_EQ(nr, g + 1);
	}
}

/* The draws of groups and of claims within them, of claims that differ in number by group. */
static void draw_often(struct __test_metadata *_metadata, u64 quota)
{
	double expected[40] = { 0 }, variance[40] = { 0 }, chance;
	struct hab_claim made[40], claims[40], groups[40];
	u32 got[40] = { 0 }, round, i;

	make_claims(made, 40, 6);
	for (round = 0; round < 40000; round++) {
		memcpy(claims, made, sizeof(claims));
		hab_max_min_divide_groups(claims, 40, groups, quota, next_random());
		ASSERT_EQ(quota, sum_of(claims, 40));
		for (i = 0; i < 40; i++)
			got[claims[i].share] += claims[i].quota > 0;
		for (i = 0; i < 40; i++) {
			/* Where a group got nothing, a claim's chance has no meaning. */
			chance = (double)claims[i].chance / HAB_PROBABILITY_ONE;
			if (claims[i].quota) {
				expected[claims[i].share] += 1 / chance;
				variance[claims[i].share] += (1 - chance) / chance / chance;
			}
		}
	}
	for (i = 0; i < 40; i++) {
		EXPECT_GT(got[i], 0);
		EXPECT_LE(fabs(expected[i] - 40000), 4.5 * sqrt(variance[i]) + 0.001 * 40000)
		TH_LOG("claim %u: %f of 40000 +- %f", i, expected[i], sqrt(variance[i]));
	}
}

TEST(a_claim_that_is_drawn_stands_for_all_times_that_it_is_not)
{
	draw_often(_metadata, 2);  /* less than groups */
	draw_often(_metadata, 6);  /* one each */
	draw_often(_metadata, 17); /* less than claims */
	draw_often(_metadata, 60);
}

struct count {
	double estimates[HAB_SHARES * 2];
	u64 samples[HAB_SHARES * 2];
};

static void add(void *context, const struct reader_sample *sample)
{
	struct count *count = context;

	count->samples[sample->stack]++;
	count->estimates[sample->stack] += (double)HAB_PROBABILITY_ONE / sample->probability;
}

static void offer_of(struct hab_throttle *throttle, struct reader *reader, u32 user, u32 process)
{
	struct hab_kept kept;

	if (hab_throttle_offer(throttle, HAB_SHARE_KEY(user, process + 1), &kept))
		reader_keep(reader, &kept, process, 1);
}

static void offer(struct hab_throttle *throttle, struct reader *reader, u32 process)
{
	offer_of(throttle, reader, 0, process);
}

TEST(each_of_20_processes_gets_its_share_beside_one_with_1000_times_their_events)
{
	static struct hab_throttle throttle;
	struct count count = { 0 };
	struct reader reader = { .quota = 1000, .emit = add, .context = &count };
	u64 before = 0, sampled;
	int window, n, i;

	/* 300/s: 60 a window for 20 * 2 wanted and one with 2000. */
	hab_throttle_set_rate(&throttle, 300, HAB_SECOND_MS, reader_end, &reader);
	for (window = 0; window < 500; window++) {
		for (n = 0; n < 2 * HEAVY; n++) {
			offer(&throttle, &reader, QUIET);
			for (i = 0; i < QUIET; i++)
				if (n % HEAVY == i * 31 % HEAVY)
					offer(&throttle, &reader, i);
		}
		hab_throttle_rotate(&throttle, next_random(), reader_end, &reader);
		if (window % 5 == 4) {
			sampled = hab_counter_read(&throttle.sampled);
			EXPECT_LE(sampled - before, 300);
			before = sampled;
		}
	}
	/* Each small process raised 1000 events; all but those of the first seconds are kept. */
	for (i = 0; i < QUIET; i++) {
		EXPECT_GT(count.samples[i], 900);
		EXPECT_LT(fabs(count.estimates[i] - 1000), 200);
	}
	TH_LOG("samples of the heavy one %lu, of the quiet ones %lu ... %lu",
	       (long)count.samples[QUIET], (long)count.samples[0], (long)count.samples[QUIET - 1]);
	EXPECT_GT(count.samples[QUIET], 500 * 60 - QUIET * 1000 - 600);
	EXPECT_LT(fabs(count.estimates[QUIET] - 1e6), 3e4);
	reader_free(&reader);
}

TEST(more_processes_than_quota_are_all_sampled_without_bias)
{
	static struct hab_throttle throttle;
	static struct count count;
	struct reader reader = { .quota = 1000, .emit = add, .context = &count };
	double total = 0;
	int window, n, i;

	/* A quota of 10 for 100 processes with 20 to 119 events in a window. */
	hab_throttle_set_rate(&throttle, 50, HAB_SECOND_MS, reader_end, &reader);
	for (window = 0; window < 2000; window++) {
		for (i = 0; i < 100; i++)
			for (n = 0; n < 20 + i; n++)
				offer_of(&throttle, &reader, i / 50, i);
		hab_throttle_rotate(&throttle, next_random(), reader_end, &reader);
	}
	EXPECT_LE(hab_counter_read(&throttle.sampled), 2000 * 10);
	for (i = 0; i < 100; i++) {
		/* 200 samples of each: a standard error of 7 %. */
		EXPECT_GT(count.samples[i], 120);
		EXPECT_LT(fabs(count.estimates[i] / (2000.0 * (20 + i)) - 1), 0.4);
		total += count.estimates[i] / (2000.0 * (20 + i)) / 100;
	}
	TH_LOG("mean of estimate / truth %.4f", total);
	EXPECT_LT(fabs(total - 1), 0.03);
	reader_free(&reader);
}

/* Sends an event of @key, which is told whether the next is kept; true if that came true. */
static bool tells_right(struct hab_throttle *throttle, u64 key, bool *next)
{
	struct hab_kept kept;
	bool told = *next, is_kept = hab_throttle_offer(throttle, key, &kept);

	*next = kept.next;
	return told == is_kept;
}

TEST(nobody_is_told_what_comes_next_in_the_common_share)
{
	const u64 quiet = HAB_SHARE_KEY(2, 1), busy = HAB_SHARE_KEY(1, 1);
	static struct hab_throttle throttle;
	bool next = false, next_of_quiet = false;
	int window, n, right = 0, told = 0;

	hab_throttle_set_rate(&throttle, 300, HAB_SECOND_MS, NULL, NULL);
	for (window = 0; window < 300; window++) {
		for (n = 0; n < 1000; n++)
			right += tells_right(&throttle, busy, &next);
		/* Groups with less than an event in a window count in the common share. */
		if (window % 3 == 0) {
			tells_right(&throttle, quiet, &next_of_quiet);
			told += next_of_quiet;
		}
		hab_throttle_rotate(&throttle, next_random(), NULL, NULL);
	}
	/* All but those at the ends of windows, and before it has a share of its own. */
	EXPECT_GT(right, 300 * 1000 - 2 * 300 - 2000);
	EXPECT_EQ(0, told);
}

TEST(processes_new_in_each_window_are_sampled_without_bias)
{
	static struct hab_throttle throttle;
	static struct count count;
	struct reader reader = { .quota = 1000, .emit = add, .context = &count };
	struct hab_kept kept;
	int window, n;

	hab_throttle_set_rate(&throttle, 150, HAB_SECOND_MS, reader_end, &reader);
	for (window = 0; window < 3000; window++) {
		for (n = 0; n < 1000; n++) {
			offer(&throttle, &reader, 0);
			/* A process with events in this window only. */
			if (n % 100 == 50 && hab_throttle_offer(&throttle, 1000000 + window, &kept))
				reader_keep(&reader, &kept, 1, 1);
		}
		hab_throttle_rotate(&throttle, next_random(), reader_end, &reader);
	}
	TH_LOG("one process: estimate %.0f of 3000000; 3000 new ones: %.0f of 30000 from %lu samples",
	       count.estimates[0], count.estimates[1], (long)count.samples[1]);
	EXPECT_LT(fabs(count.estimates[0] / 3e6 - 1), 0.01);
	EXPECT_LT(fabs(count.estimates[1] / 3e4 - 1), 0.05);
	EXPECT_GT(count.samples[1], 10000);
	reader_free(&reader);
}

TEST(a_full_table_loses_no_event_and_unused_places_become_free)
{
	static struct hab_throttle throttle;
	static struct count count;
	struct reader reader = { .quota = 1000, .emit = add, .context = &count };
	u64 events = 0, used = 0;
	double total = 0;
	int window, n, i;

	hab_throttle_set_rate(&throttle, 5000, HAB_SECOND_MS, reader_end, &reader);
	for (window = 0; window < 100; window++) {
		for (n = 0; n < 3; n++)
			for (i = 0; i < 2 * (int)HAB_SHARES; i++, events++)
				offer(&throttle, &reader, i);
		hab_throttle_rotate(&throttle, next_random(), reader_end, &reader);
	}
	for (i = 0; i < 2 * (int)HAB_SHARES; i++)
		total += count.estimates[i];
	TH_LOG("estimate / truth %.4f", total / events);
	EXPECT_LT(fabs(total / events - 1), 0.05);
	EXPECT_EQ(events, hab_counter_read(&throttle.sampled) + hab_throttle_throttled(&throttle));
	for (window = 0; window < 300; window++)
		hab_throttle_rotate(&throttle, next_random(), reader_end, &reader);
	for (i = 0; i < (int)HAB_SHARES; i++)
		used += hab_counter_read(&throttle.shares[i].key) != 0;
	EXPECT_EQ(0, used);
	reader_free(&reader);
}

static u32 places_of(const struct hab_throttle *throttle, u32 user)
{
	u32 i, places = 0;
	u64 key;

	for (i = 0; i < HAB_SHARES; i++) {
		key = hab_counter_read(&throttle->shares[i].key);
		places += key && HAB_SHARE_GROUP(key) == user;
	}
	return places;
}

#define FORKED 511
#define GREEDY 1001 /* users */
#define VICTIM 1002

TEST(a_users_511_processes_leave_half_of_the_quota_to_another_user)
{
	static struct hab_throttle throttle;
	static struct count count;
	struct reader reader = { .quota = 1000, .emit = add, .context = &count };
	double greedy = 0;
	int window, n, i;

	/* A quota of 30; the victim has 300 events, each of the others 20. */
	hab_throttle_set_rate(&throttle, 150, HAB_SECOND_MS, reader_end, &reader);
	for (window = 0; window < 3000; window++) {
		for (n = 0; n < 20; n++) {
			for (i = 0; i < FORKED; i++) {
				offer_of(&throttle, &reader, GREEDY, i);
				if (i < 15)
					offer_of(&throttle, &reader, VICTIM, FORKED);
			}
		}
		hab_throttle_rotate(&throttle, next_random(), reader_end, &reader);
	}
	EXPECT_LE(places_of(&throttle, GREEDY), HAB_GROUP_SHARES);
	EXPECT_EQ(1, places_of(&throttle, VICTIM));
	for (i = 0; i < FORKED; i++)
		greedy += count.estimates[i] / (3000.0 * 20 * FORKED);
	TH_LOG("victim %lu of %lu samples, estimate %.4f; the others' %.4f of the truth",
	       (long)count.samples[FORKED], (long)hab_counter_read(&throttle.sampled),
	       count.estimates[FORKED] / (3000.0 * 300), greedy);
	/* But for the first seconds, in which the averages grow. */
	EXPECT_GT(count.samples[FORKED], (3000 - 50) * 15);
	EXPECT_LT(fabs(count.estimates[FORKED] / (3000.0 * 300) - 1), 0.03);
	/* Most of their events share one place: 700 samples, a standard error of 4 %. */
	EXPECT_LT(fabs(greedy - 1), 0.15);
	/* Most of them end: the others have places of their own again. */
	for (window = 0; window < 400; window++) {
		for (n = 0; n < 20; n++)
			for (i = 0; i < 10; i++)
				offer_of(&throttle, &reader, GREEDY, FORKED - 1 - i);
		hab_throttle_rotate(&throttle, next_random(), reader_end, &reader);
	}
	EXPECT_EQ(10, places_of(&throttle, GREEDY));
	reader_free(&reader);
}

TEST(users_with_different_numbers_of_processes_are_sampled_without_bias)
{
	static struct hab_throttle throttle;
	static struct count count;
	struct reader reader = { .quota = 1000, .emit = add, .context = &count };
	double truth, total = 0;
	int window, n, i;

	/* Six users with 1, 3 ... 11 processes: 36 of them for a quota of 4. */
	hab_throttle_set_rate(&throttle, 20, HAB_SECOND_MS, reader_end, &reader);
	for (window = 0; window < 8000; window++) {
		for (n = 0; n < 30; n++)
			for (i = 0; i < 36; i++)
				if (n < 10 + i % 20)
					offer_of(&throttle, &reader, (u32)sqrt(i), i);
		hab_throttle_rotate(&throttle, next_random(), reader_end, &reader);
	}
	EXPECT_LE(hab_counter_read(&throttle.sampled), 8000 * 4);
	for (i = 0; i < 36; i++) {
		truth = 8000.0 * (10 + i % 20);
		/* At least 400 samples of each: a standard error of 5 %. */
		EXPECT_LT(fabs(count.estimates[i] / truth - 1), 0.25)
		TH_LOG("process %d: %lu samples", i, (long)count.samples[i]);
		total += count.estimates[i] / truth / 36;
	}
	TH_LOG("mean of estimate / truth %.4f", total);
	EXPECT_LT(fabs(total - 1), 0.03);
	reader_free(&reader);
}

TEST_HARNESS_MAIN
