// SPDX-License-Identifier: GPL-2.0-only
/*
 * core/throttle on a mock clock: the test turns the windows.
 *
 * Arrival patterns and expected counts are the acceptance cases of the JDK's
 * adaptive sampler (10,000 windows of 100 ms, 50 points each, lookback 50), at the
 * values of a re-simulation of its algorithm.
 */
#include <math.h>
#include <pthread.h>
#include <stdlib.h>

#include "kselftest_harness.h"
#include "core/logarithm.h"
#include "core/throttle.h"

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

static struct outcome simulate(enum pattern pattern)
{
	struct hab_throttle throttle = { 0 };
	struct outcome outcome = { 0 };
	int window;

	hab_throttle_set_windows(&throttle, 500, 10, 50);
	for (window = 0; window < WINDOWS; window++) {
		u64 n = arrivals(pattern, window);

		outcome.events += n;
		while (n--)
			hab_throttle_offer(&throttle);
		hab_throttle_turn(&throttle, next_random());
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
ACCEPTANCE(a_burst_in_the_first_window_gets_one_windows_points, FIRST, 50000u, 0u)
ACCEPTANCE(a_burst_in_the_fifth_window_gets_five_windows_points, FIFTH, 250000u, 0u)
ACCEPTANCE(a_burst_in_the_tenth_window_gets_ten_windows_points, TENTH, 500000u, 0u)
ACCEPTANCE(rare_bursts_borrow_from_quiet_windows, BURSTY_10, 220000u, 20000u)
ACCEPTANCE(frequent_bursts_are_sampled_as_the_jdk_does, BURSTY_90, 487000u, 10000u)

TEST(no_second_emits_more_than_the_rate)
{
	struct hab_throttle throttle = { 0 };
	u64 before, second, n;
	unsigned int w, rate;

	for (rate = 1; rate < 1000; rate += rate < 20 ? 1 : 97) {
		hab_throttle_set_rate(&throttle, rate);
		for (second = 0; second < 50; second++) {
			before = hab_counter_read(&throttle.sampled);
			for (w = 0; w < throttle.windows_per_second; w++) {
				for (n = below(40000); n; n--)
					hab_throttle_offer(&throttle);
				hab_throttle_turn(&throttle, next_random());
			}
			EXPECT_LE(hab_counter_read(&throttle.sampled) - before, rate);
		}
	}
}

TEST(what_the_samples_stand_for_adds_up_to_all_events)
{
	struct hab_throttle throttle = { 0 };
	double estimate = 0;
	u64 events = 0, probability, n;
	int window;

	hab_throttle_set_rate(&throttle, 150);
	for (window = 0; window < 500; window++) {
		/* Most windows use up their samples early: bursts of many sizes. */
		for (n = below(below(20) ? 2000 : 200000); n; n--) {
			events++;
			probability = hab_throttle_offer(&throttle);
			if (probability)
				estimate += (double)HAB_PROBABILITY_ONE / probability;
		}
		hab_throttle_turn(&throttle, next_random());
	}
	EXPECT_LT(fabs(estimate - events), 200000 + events * 0.001);
}

TEST(no_remainder_of_a_rate_is_lost)
{
	struct hab_throttle throttle = { 0 };
	int window;

	/* The JDK makes 10 of 14: 14 / 5 windows, rounded down. */
	hab_throttle_set_rate(&throttle, 14);
	for (window = 0; window < 50; window++) {
		int n;

		for (n = 0; n < 3; n++)
			hab_throttle_offer(&throttle);
		hab_throttle_turn(&throttle, next_random());
	}
	EXPECT_EQ(140, hab_counter_read(&throttle.sampled));
}

TEST(rate_0_keeps_nothing_and_off_keeps_all)
{
	struct hab_throttle throttle = { 0 };
	int n;

	hab_throttle_set_rate(&throttle, 0);
	for (n = 0; n < 1000; n++) {
		EXPECT_EQ(0, hab_throttle_offer(&throttle));
		if (n % 100 == 0)
			hab_throttle_turn(&throttle, next_random());
	}
	EXPECT_EQ(1000, hab_throttle_throttled(&throttle));
	hab_throttle_set_rate(&throttle, HAB_RATE_OFF);
	for (n = 0; n < 1000; n++) {
		EXPECT_EQ(HAB_PROBABILITY_ONE, hab_throttle_offer(&throttle));
		if (n % 100 == 0)
			hab_throttle_turn(&throttle, next_random());
	}
	EXPECT_EQ(1000, hab_counter_read(&throttle.sampled));
	EXPECT_EQ(-EINVAL, hab_throttle_set_rate(&throttle, HAB_RATE_OFF + 1));
}

TEST(a_changed_rate_holds_from_the_next_event_on)
{
	struct hab_throttle throttle = { 0 };
	u64 before;
	int window, n;

	hab_throttle_set_rate(&throttle, 1000);
	for (n = 0; n < 100000; n++)
		hab_throttle_offer(&throttle);
	hab_throttle_set_rate(&throttle, 5);
	before = hab_counter_read(&throttle.sampled);
	for (window = 0; window < 10; window++) {
		for (n = 0; n < 10000; n++)
			hab_throttle_offer(&throttle);
		hab_throttle_turn(&throttle, next_random());
	}
	EXPECT_LE(hab_counter_read(&throttle.sampled) - before, 50);
}

TEST(the_logarithm_is_right_to_its_last_bit)
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

struct crowd {
	struct hab_throttle throttle;
	bool stop;
};

static void *offer_many(void *argument)
{
	struct crowd *crowd = argument;
	int n;

	for (n = 0; n < 500000; n++)
		hab_throttle_offer(&crowd->throttle);
	return NULL;
}

TEST(no_event_is_uncounted_while_windows_turn_under_eight_threads)
{
	static struct crowd crowd;
	pthread_t threads[8];
	int i;

	hab_throttle_set_rate(&crowd.throttle, 5000);
	for (i = 0; i < 8; i++)
		ASSERT_EQ(0, pthread_create(&threads[i], NULL, offer_many, &crowd));
	for (i = 0; i < 2000; i++)
		hab_throttle_turn(&crowd.throttle, next_random());
	for (i = 0; i < 8; i++)
		pthread_join(threads[i], NULL);
	EXPECT_EQ(8 * 500000, hab_counter_read(&crowd.throttle.sampled) +
				      hab_throttle_throttled(&crowd.throttle));
}

TEST_HARNESS_MAIN
