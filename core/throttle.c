// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The throttler of throttle.h, in integers.
 *
 * The hard case is the sampling interval. It is drawn from the geometric
 * distribution with success probability points / average, which takes the ratio
 * of two logarithms close to 0; both have 40 bits of fraction.
 */
#include "logarithm.h"
#include "throttle.h"

#define AVERAGE_SHIFT 16
#define INTERVAL_MAX  (1ull << 31)
#define MEASURED_MAX  (1ull << 46) /* of a window; keeps the average in 64 bits */

/* Points of the window with number @phase: no second's remainder is lost. */
static u64 points_of(const struct hab_throttle *throttle, u32 phase)
{
	u32 n = throttle->windows_per_second;

	return (u64)throttle->rate * (phase + 1) / n - (u64)throttle->rate * phase / n;
}

/*
 * Every how many events to keep one, so that about @points of the expected
 * average are kept: 1, or geometric with mean average / points.
 */
static u64 draw_interval(u64 points, u64 average, u64 random)
{
	u64 miss, log_random, log_miss, interval;

	if (average <= points << AVERAGE_SHIFT)
		return 1;
	/* miss = 1 - points / average, in (0, 1) because of the test above. */
	miss = HAB_LOG_ONE - hab_mul_div(points << AVERAGE_SHIFT, HAB_LOG_ONE, average);
	log_miss = hab_minus_log2(miss);
	log_random = hab_minus_log2((random >> 1) | 1);
	if (!log_miss)
		return INTERVAL_MAX;
	interval = hab_div(log_random, log_miss) + 1;
	return min(interval, INTERVAL_MAX);
}

/* Fills in the idle window for @points samples and makes it the active one. */
static void publish(struct hab_throttle *throttle, u64 points, u64 random)
{
	struct hab_throttle_window *window = &throttle->windows[0];

	if (throttle->active == window)
		window = &throttle->windows[1];
	window->interval = points ? draw_interval(points, throttle->average, random) : 1;
	window->projected = points * window->interval;
	hab_counter_set(&window->measured, 0);
	/* Pairs with the load acquire in hab_throttle_offer(). */
	hab_store_release(&throttle->active, window);
}

/* What the ended window had left of its samples, forgiven once a second. */
static u64 carry_debt(struct hab_throttle *throttle, u64 measured)
{
	const struct hab_throttle_window *window = throttle->active;

	if (throttle->carried >= throttle->windows_per_second) {
		throttle->carried = 1;
		return 0;
	}
	throttle->carried++;
	return hab_div(window->projected, window->interval) -
	       hab_div(min(measured, window->projected), window->interval);
}

static void update_average(struct hab_throttle *throttle, u64 measured)
{
	u64 now = min(measured, MEASURED_MAX) << AVERAGE_SHIFT;

	if (now >= throttle->average)
		throttle->average += hab_div(now - throttle->average, throttle->lookback);
	else
		throttle->average -= hab_div(throttle->average - now, throttle->lookback);
}

u64 hab_throttle_turn(struct hab_throttle *throttle, u64 random)
{
	u64 measured = hab_counter_read(&throttle->active->measured);
	u64 points;

	if (throttle->rate == HAB_RATE_OFF) {
		hab_counter_set(&throttle->active->measured, 0);
		return measured;
	}
	throttle->phase = (throttle->phase + 1) % throttle->windows_per_second;
	points = points_of(throttle, throttle->phase) + carry_debt(throttle, measured);
	update_average(throttle, measured);
	publish(throttle, points, random);
	return measured;
}

int hab_throttle_set_windows(struct hab_throttle *throttle, u32 rate, u32 windows_per_second,
			     u32 lookback)
{
	if (rate > HAB_RATE_OFF || !windows_per_second || windows_per_second > 1000 || !lookback)
		return -EINVAL;
	WRITE_ONCE(throttle->windows_per_second, windows_per_second);
	throttle->lookback = lookback;
	throttle->phase = 0;
	throttle->average = 0;
	throttle->carried = 1;
	WRITE_ONCE(throttle->rate, rate);
	/* What was not kept at another rate is not this one's to make up for. */
	hab_counter_set(&throttle->kept_at, hab_counter_read(&throttle->offered));
	publish(throttle, rate == HAB_RATE_OFF ? 0 : points_of(throttle, 0), 0);
	return 0;
}

int hab_throttle_set_rate(struct hab_throttle *throttle, u32 rate)
{
	/* The JDK's rule: few samples a second are one window's. */
	return hab_throttle_set_windows(throttle, rate, rate <= 9 ? 1 : 5, 25);
}

/* How many events the one with number @ordinal stands for, having been kept. */
static u64 stands_for(struct hab_throttle *throttle, u64 ordinal)
{
	u64 last = hab_counter_read(&throttle->kept_at);
	u64 found;

	while (last < ordinal) {
		found = hab_counter_cmpxchg(&throttle->kept_at, last, ordinal);
		if (found == last)
			return ordinal - last;
		last = found;
	}
	/* A later one was faster, and stands for those before this one. */
	return 1;
}

u64 hab_throttle_offer(struct hab_throttle *throttle)
{
	/* Pairs with the store release in publish(). */
	struct hab_throttle_window *window = hab_load_acquire(&throttle->active);
	u64 ordinal = hab_counter_increment(&throttle->offered);
	u64 in_window = hab_counter_increment(&window->measured);

	if (READ_ONCE(throttle->rate) != HAB_RATE_OFF &&
	    (in_window > window->projected || in_window % window->interval))
		return 0;
	hab_counter_increment(&throttle->sampled);
	return hab_div(HAB_PROBABILITY_ONE, stands_for(throttle, ordinal));
}
