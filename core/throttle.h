/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Which event is sampled: an adaptive throttler with windows, after the JDK's
 * (jfr/support/jfrAdaptiveSampler.cpp, jfr/recorder/service/jfrEventThrottler.cpp).
 *
 * Synchronisation: hab_throttle_offer() may run on all CPUs at once, in any
 * context, takes no lock and never waits. hab_throttle_turn() and
 * hab_throttle_set_rate() are serialised by the caller. There are two windows;
 * the turn fills in the idle one and publishes it, so an offer that read the old
 * pointer still counts, in the old window, and is never lost: the totals are kept
 * apart from the windows.
 *
 * Two things differ from the JDK on purpose. An event that comes after its
 * window's end is counted in the old window instead of being dropped uncounted,
 * because a timer turns the windows, not an event. And the points of a second
 * are spread over its windows without a remainder: 14/s is 14/s.
 */
#ifndef HAB_CORE_THROTTLE_H
#define HAB_CORE_THROTTLE_H

#include "os.h"

#define HAB_RATE_MAX	    1000000u
#define HAB_RATE_OFF	    (HAB_RATE_MAX + 1) /* no throttle: keep all */
#define HAB_RATE_DEFAULT    150u
#define HAB_PROBABILITY_ONE (1ull << 32)

/* @measured is written by all CPUs; the rest only while the window is idle. */
struct hab_throttle_window {
	hab_counter measured;
	u64 projected;
	u64 interval;
};

/**
 * struct hab_throttle - a throttler
 * @active: the window that offers count in; store release in the turn pairs
 *	with load acquire in the offer
 * @windows: the two
 * @offered: events, ever
 * @sampled: of these the ones kept; the others were throttled
 * @kept_at: @offered when the last one was kept
 * @rate: events to keep in a second, or HAB_RATE_OFF
 * @windows_per_second: 1 or 5
 * @lookback: windows that the average looks back on, at least 1
 * @phase: number of the active window within its second
 * @average: of events in a window, 16 bits of fraction
 * @carried: windows since debt was forgiven last
 */
struct hab_throttle {
	struct hab_throttle_window *active;
	struct hab_throttle_window windows[2];
	hab_counter offered;
	hab_counter sampled;
	hab_counter kept_at;
	u32 rate;
	u32 windows_per_second;
	u32 lookback;
	u32 phase;
	u64 average;
	u32 carried;
};

/**
 * hab_throttle_set_rate - set or change the rate
 * @throttle: in use, or zeroed
 * @rate: events to keep in a second, 0 to HAB_RATE_MAX, or HAB_RATE_OFF
 *
 * Begins a new window with a fresh average, as the JDK does. The caller turns it
 * after hab_throttle_window_ms() of the new rate.
 *
 * Return: 0 or -EINVAL.
 */
int hab_throttle_set_rate(struct hab_throttle *throttle, u32 rate);

/**
 * hab_throttle_set_windows - the same with windows of one's own
 * @throttle: in use, or zeroed
 * @rate: as above
 * @windows_per_second: 1 to 1000
 * @lookback: how many windows the average looks back on, at least 1
 *
 * Return: 0 or -EINVAL.
 */
int hab_throttle_set_windows(struct hab_throttle *throttle, u32 rate, u32 windows_per_second,
			     u32 lookback);

/* How long a window lasts, in milliseconds. */
static inline u32 hab_throttle_window_ms(const struct hab_throttle *throttle)
{
	return 1000 / throttle->windows_per_second;
}

/**
 * hab_throttle_offer - one event
 * @throttle: any context, any CPU
 *
 * The probability of a kept event is one in so many events as came since the one
 * kept before. While a window's interval runs that is the interval; the first event
 * kept after a window whose samples were used up early stands for the rest of that
 * window too, so that what the samples stand for always adds up to all events.
 *
 * Return: 0 if the event is not kept (and counted as throttled); otherwise it was
 * counted as sampled, with that probability, HAB_PROBABILITY_ONE for 1.
 */
u64 hab_throttle_offer(struct hab_throttle *throttle);

/* Events that were offered and not kept, ever. */
static inline u64 hab_throttle_throttled(const struct hab_throttle *throttle)
{
	/* In this order: what is kept in between makes it smaller, not negative. */
	u64 sampled = hab_counter_read(&throttle->sampled);

	return hab_counter_read(&throttle->offered) - sampled;
}

/**
 * hab_throttle_turn - the active window is over
 * @throttle: the caller holds its lock
 * @random: 64 uniform bits
 *
 * Return: events that the window had measured.
 */
u64 hab_throttle_turn(struct hab_throttle *throttle, u64 random);

#endif /* HAB_CORE_THROTTLE_H */
