// SPDX-License-Identifier: GPL-2.0-only
/*
 * core/throttle on a mock clock: the test rotates the windows.
 *
 * Arrival patterns and expected counts are the acceptance cases of the JDK's
 * adaptive sampler (10,000 windows of 100 ms, 50 quota each, lookback 50), at the
 * values of a re-simulation of its algorithm.
 */
#include <math.h>
#include <stdlib.h>

#include "kselftest_harness.h"
#include "core/logarithm.h"
#include "core/throttle/budget.h"
#include "core/throttle/throttle.h"
#include "reader.h"

#define WINDOWS 10000

static u64 random_state = 88172645463325252ull;

static u64 next_random(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state * 0x2545f4914f6cdd1dull;
}

static u64 below(u64 limit)
{
	return (next_random() >> 11) % limit;
}

#define SOMEBODY 1

static u64 offer(struct hab_throttle *throttle)
{
	struct hab_kept kept;

	return hab_throttle_offer(throttle, SOMEBODY, &kept) ? kept.probability : 0;
}

static void rotate(struct hab_throttle *throttle)
{
	hab_throttle_rotate(throttle, next_random(), NULL, NULL);
}

static int set_rate(struct hab_throttle *throttle, u32 rate)
{
	return hab_throttle_set_rate(throttle, rate, HAB_SECOND_MS, NULL, NULL);
}

enum pattern { UNIFORM, LOW, HIGH, FIRST, FIFTH, TENTH, BURSTY_10, BURSTY_90 };

static u64 arrivals(enum pattern pattern, int window)
{
	switch (pattern) {
	case UNIFORM:
		return 2 + below(2000);
	case LOW:
		return 2;
	case HIGH:
		return 2000;
	case FIRST:
		return window % 10 == 0 ? 2000 : 0;
	case FIFTH:
		return window % 10 == 4 ? 2000 : 0;
	case TENTH:
		return window % 10 == 9 ? 2000 : 0;
	case BURSTY_10:
		return below(100) < 10 ? 2 + below(2000) : 0;
	default:
		return below(100) < 90 ? 2 + below(2000) : 0;
	}
}

struct outcome {
	u64 events;
	u64 sampled;
	u64 throttled;
};

static const struct hab_throttle_shape the_jdks = { 500, HAB_SECOND_MS, 10, 50, 0 };

static struct outcome simulate(enum pattern pattern)
{
	struct hab_throttle throttle = { 0 };
	struct outcome outcome = { 0 };
	int window;

	hab_throttle_set_shape(&throttle, &the_jdks, NULL, NULL);
	for (window = 0; window < WINDOWS; window++) {
		u64 n = arrivals(pattern, window);

		outcome.events += n;
		while (n--)
			offer(&throttle);
		rotate(&throttle);
	}
	outcome.sampled = hab_counter_read(&throttle.sampled);
	outcome.throttled = hab_throttle_throttled(&throttle);
	return outcome;
}

#define ACCEPTANCE(name, pattern, expected, tolerance)                          \
	TEST(name)                                                              \
	{                                                                       \
		struct outcome outcome = simulate(pattern);                     \
                                                                                \
		EXPECT_LE(outcome.sampled, (expected) + (tolerance));           \
		EXPECT_GE(outcome.sampled + (tolerance), expected);             \
		EXPECT_EQ(outcome.events, outcome.sampled + outcome.throttled); \
	}

ACCEPTANCE(uniform_arrivals_are_sampled_as_the_jdk_does, UNIFORM, 484000u, 5000u)
ACCEPTANCE(few_arrivals_are_all_sampled, LOW, 20000u, 0u)
ACCEPTANCE(many_arrivals_are_thinned_to_the_rate, HIGH, 491000u, 3000u)
ACCEPTANCE(a_burst_in_the_first_window_gets_one_windows_quota, FIRST, 50000u, 0u)
ACCEPTANCE(a_burst_in_the_fifth_window_gets_five_windows_quota, FIFTH, 250000u, 0u)
ACCEPTANCE(a_burst_in_the_tenth_window_gets_ten_windows_quota, TENTH, 500000u, 0u)
ACCEPTANCE(rare_bursts_borrow_from_quiet_windows, BURSTY_10, 220000u, 20000u)
ACCEPTANCE(frequent_bursts_are_sampled_as_the_jdk_does, BURSTY_90, 487000u, 10000u)

TEST(no_second_has_more_samples_than_the_rate)
{
	struct hab_throttle throttle = { 0 };
	u64 before, second, n;
	unsigned int w, rate;

	for (rate = 1; rate < 1000; rate += rate < 20 ? 1 : 97) {
		set_rate(&throttle, rate);
		for (second = 0; second < 50; second++) {
			before = hab_counter_read(&throttle.sampled);
			for (w = 0; w < throttle.shape.windows; w++) {
				for (n = below(40000); n; n--)
					offer(&throttle);
				rotate(&throttle);
			}
			EXPECT_LE(hab_counter_read(&throttle.sampled) - before, rate);
		}
	}
}

static void add_estimate(void *context, const struct reader_sample *sample)
{
	*(double *)context += (double)HAB_PROBABILITY_ONE / sample->probability;
}

TEST(estimates_add_up_to_all_events)
{
	struct hab_throttle throttle = { 0 };
	double estimate = 0, worst = 0, before;
	struct reader reader = { .quota = 150, .emit = add_estimate, .context = &estimate };
	struct hab_kept kept;
	u64 records = 0, n, many;
	int window;

	hab_throttle_set_rate(&throttle, 150, HAB_SECOND_MS, reader_end, &reader);
	for (window = 0; window < 200; window++) {
		/* Most windows are bursts of many sizes. */
		many = below(below(20) ? 2000 : 200000);
		before = estimate;
		for (n = 0; n < many; n++)
			if (hab_throttle_offer(&throttle, SOMEBODY, &kept))
				reader_keep(&reader, &kept, 0, 1);
		hab_throttle_rotate(&throttle, next_random(), reader_end, &reader);
		worst = fmax(worst, fabs(estimate - before - many) -
					    throttle.shares[0].windows[0].interval);
		records = reader.records;
	}
	/* Each window is right by itself, within one stratum. */
	TH_LOG("worst window %.1f; %lu records for %lu samples", worst, (long)records,
	       (long)hab_counter_read(&throttle.sampled));
	EXPECT_LT(worst, 1000);
	EXPECT_LT(records, 6 * hab_counter_read(&throttle.sampled));
	reader_free(&reader);
}

TEST(a_rate_that_windows_do_not_divide_is_kept_exactly)
{
	struct hab_throttle throttle = { 0 };
	int window;

	/* The JDK makes 10 of 14: 14 / 5 windows, rounded down. */
	set_rate(&throttle, 14);
	for (window = 0; window < 50; window++) {
		int n;

		for (n = 0; n < 3; n++)
			offer(&throttle);
		rotate(&throttle);
	}
	EXPECT_EQ(140, hab_counter_read(&throttle.sampled));
}

TEST(rate_0_keeps_no_event_and_off_keeps_all)
{
	struct hab_throttle throttle = { 0 };
	int n;

	set_rate(&throttle, 0);
	for (n = 0; n < 1000; n++) {
		EXPECT_EQ(0, offer(&throttle));
		if (n % 100 == 0)
			rotate(&throttle);
	}
	EXPECT_EQ(1000, hab_throttle_throttled(&throttle));
	set_rate(&throttle, HAB_RATE_OFF);
	for (n = 0; n < 1000; n++) {
		EXPECT_EQ(HAB_PROBABILITY_ONE, offer(&throttle));
		if (n % 100 == 0)
			rotate(&throttle);
	}
	EXPECT_EQ(1000, hab_counter_read(&throttle.sampled));
	EXPECT_EQ(-EINVAL, set_rate(&throttle, HAB_RATE_OFF + 1));
}

TEST(a_new_rate_applies_from_the_next_event_on)
{
	struct hab_throttle throttle = { 0 };
	u64 before;
	int window, n;

	set_rate(&throttle, 1000);
	for (n = 0; n < 100000; n++)
		offer(&throttle);
	set_rate(&throttle, 5);
	before = hab_counter_read(&throttle.sampled);
	for (window = 0; window < 10; window++) {
		for (n = 0; n < 10000; n++)
			offer(&throttle);
		rotate(&throttle);
	}
	EXPECT_LE(hab_counter_read(&throttle.sampled) - before, 50);
}

TEST(the_logarithm_is_exact_to_its_last_bit)
{
	double worst = 0, error;
	u64 fraction;
	int n;

	EXPECT_EQ(0, hab_minus_log2(HAB_LOG_ONE));
	EXPECT_EQ(63ull << HAB_LOG_BITS, hab_minus_log2(1));
	for (n = 0; n < 200000; n++) {
		fraction = (next_random() >> (1 + below(60))) | 1;
		error = -log2((double)fraction / (double)HAB_LOG_ONE) -
			(double)hab_minus_log2(fraction) / (double)(1ull << HAB_LOG_BITS);
		worst = fmax(worst, fabs(error));
	}
	EXPECT_LT(worst, 2e-12);
}

static u32 share_of_rate(u32 rate, u32 period_ms, u32 *window_ms, u32 *lookback)
{
	struct hab_throttle throttle = { 0 };
	u32 windows, total = 0, i;

	if (hab_throttle_set_rate(&throttle, rate, period_ms, NULL, NULL))
		return ~0u;
	*window_ms = hab_throttle_window_ms(&throttle);
	*lookback = throttle.shape.lookback;
	windows = period_ms / *window_ms;
	for (i = 0; i < windows; i++) {
		int n;

		/* Each window is used up, so no quota is carried over. */
		for (n = 0; n < 2000; n++)
			offer(&throttle);
		rotate(&throttle);
	}
	total = hab_counter_read(&throttle.sampled);
	return total;
}

TEST(rates_per_minute_hour_and_day_have_the_jdks_windows_and_are_exact)
{
	u32 window_ms, lookback;

	EXPECT_EQ(9, share_of_rate(9, HAB_SECOND_MS, &window_ms, &lookback));
	EXPECT_EQ(1000, window_ms);
	EXPECT_EQ(25, lookback);
	EXPECT_EQ(14, share_of_rate(14, HAB_SECOND_MS, &window_ms, &lookback));
	EXPECT_EQ(200, window_ms);
	EXPECT_EQ(25, lookback);
	EXPECT_EQ(9, share_of_rate(9, HAB_MINUTE_MS, &window_ms, &lookback));
	EXPECT_EQ(60000, window_ms);
	EXPECT_EQ(5, lookback);
	EXPECT_EQ(13, share_of_rate(13, HAB_MINUTE_MS, &window_ms, &lookback));
	EXPECT_EQ(12000, window_ms);
	EXPECT_EQ(1, lookback);
	EXPECT_EQ(1001, share_of_rate(1001, HAB_HOUR_MS, &window_ms, &lookback));
	EXPECT_EQ(720000, window_ms);
	EXPECT_EQ(1, lookback);
	EXPECT_EQ(3, share_of_rate(3, HAB_DAY_MS, &window_ms, &lookback));
	EXPECT_EQ(86400000, window_ms);
	EXPECT_EQ(~0u, share_of_rate(3, 1, &window_ms, &lookback));
	EXPECT_EQ(~0u, share_of_rate(3, HAB_DAY_MS + 1, &window_ms, &lookback));
}

TEST(the_default_rate_is_75_a_cpu_and_that_of_two_at_least)
{
	EXPECT_EQ(150, hab_rate_default(0));
	EXPECT_EQ(150, hab_rate_default(1));
	EXPECT_EQ(150, hab_rate_default(2));
	EXPECT_EQ(6000, hab_rate_default(80));
	EXPECT_EQ(HAB_RATE_MAX, hab_rate_default(20000));
}

TEST(steady_events_use_the_whole_rate)
{
	struct hab_throttle throttle = { 0 };
	int window, n;

	set_rate(&throttle, 150);
	for (window = 0; window < 50; window++) {
		for (n = 0; n < 20000; n++)
			offer(&throttle);
		rotate(&throttle);
	}
	EXPECT_EQ(1500, hab_counter_read(&throttle.sampled));
}

TEST(refills_of_large_arenas_count_as_far_as_the_users_budget_goes)
{
	u64 counted = 0, refill = HAB_ARENA_MAX, now = 1ull << 40, began, i;
	struct hab_budget budget = { .at = now };

	/* Full at first. */
	EXPECT_FALSE(hab_budget_short(&budget, refill));
	EXPECT_EQ(refill, hab_budget_spend(&budget, refill));
	EXPECT_TRUE(hab_budget_short(&budget, 1));
	/* A second of refills, one each microsecond: what the time allows, and no more. */
	for (began = now, i = 0; i < 1000000; i++) {
		now += 1000;
		if (hab_budget_short(&budget, refill))
			hab_budget_grow(&budget, now);
		counted += hab_budget_spend(&budget, refill);
	}
	EXPECT_EQ((now - began) * HAB_BUDGET_RATE, counted);
	/* A clock that goes back gives nothing. */
	hab_budget_grow(&budget, now - 500);
	EXPECT_EQ(0, hab_budget_spend(&budget, 1));
	/* It holds one arena, however long it grew, and small refills count in full meanwhile. */
	hab_budget_grow(&budget, ~0ull);
	EXPECT_EQ(HAB_BUDGET_MAX, hab_budget_spend(&budget, ~0ull));
}

/* As a reader of both sees it that has the increment of the second alone. */
TEST(fewer_events_than_samples_are_shown_as_none_throttled)
{
	static struct hab_throttle throttle;

	hab_counter_set(&throttle.offered, 7);
	hab_counter_set(&throttle.sampled, 5);
	EXPECT_EQ(2, hab_throttle_throttled(&throttle));
	hab_counter_set(&throttle.sampled, 8);
	EXPECT_EQ(0, hab_throttle_throttled(&throttle));
}

TEST_HARNESS_MAIN
