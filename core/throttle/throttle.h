/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Which event is sampled: an adaptive throttler with windows, after the JDK's
 * (jfr/support/jfrAdaptiveSampler.cpp, jfr/recorder/service/jfrEventThrottler.cpp),
 * that divides each window's quota max-min fairly among those who raise the events.
 *
 * Synchronisation: hab_throttle_offer() may run on all CPUs at once, in any
 * context, takes no lock and never waits. hab_throttle_rotate() and
 * hab_throttle_set_rate() are serialised by the caller. Each share has two windows; a turn
 * fills in the idle ones, publishes them all by one store, and then closes the
 * old ones: an offer that had read the old number counts in the old window until it
 * is closed, and in the new one after that. None is uncounted, and none counts twice.
 *
 * Who has no share of his own (he is new, or quiet, or the table is full) counts in
 * the common share, which gets quota like any other; while nobody is expected there,
 * it gets none, and its few events count in the largest share instead. A
 * throttler with one process is therefore the JDK's.
 *
 * Five things differ from the JDK on purpose. A timer turns the windows, not an event, so
 * none is dropped uncounted. The quota of a period are spread over its windows without
 * a remainder: 14/s is 14/s. What comes beyond a window's plan is not dropped but replaces
 * what was kept, see window.h: every event has the same probability. Which event
 * of an interval is kept is drawn, too. And intervals are at most half as long as they
 * would be on average (@fill of struct hab_throttle_shape).
 */
#ifndef HAB_CORE_THROTTLE_H
#define HAB_CORE_THROTTLE_H

#include "core/throttle/max_min.h"
#include "core/os.h"
#include "core/throttle/window.h"

#define HAB_RATE_MAX	 1000000u
#define HAB_RATE_OFF	 (HAB_RATE_MAX + 1) /* no throttle: keep all */
#define HAB_RATE_DEFAULT 150u

#define HAB_SECOND_MS	 1000u
#define HAB_MINUTE_MS	 (60 * HAB_SECOND_MS)
#define HAB_HOUR_MS	 (60 * HAB_MINUTE_MS)
#define HAB_DAY_MS	 (24 * HAB_HOUR_MS)

#ifndef HAB_SHARES	/* explored tests have fewer */
#define HAB_SHARES 512u /* a power of two */
#endif
#define HAB_SHARE_COMMON HAB_SHARES /* index of the common share */

#define HAB_WINDOW_CLOSED   (1ull << 62)
#define HAB_WINDOW_DECIDES  (1ull << 61)

/**
 * struct hab_window - a window of a share
 * @measured: number of events. HAB_WINDOW_DECIDES is added unless the share's events also count in
 *	the common window, which decides then: one increment gives both. At its end the window's
 *	counter is exchanged for HAB_WINDOW_CLOSED: an event that counts later sees that and goes to
 *	the next window, so the number of candidates is exact. All CPUs count here.
 * @interval: length of a stratum; 0 in a window that does not decide
 * @quota: slots
 * @probability: of an event to be a candidate, 2^32 = certain
 *
 * All but @measured is written while that is closed, and read after a count in it, which pairs
 * with the release that opened it.
 */
struct hab_window {
	hab_counter measured;
	u32 interval;
	u32 quota;
	u64 probability;
};

/**
 * struct hab_share - one who raises events
 * @key: who, or 0: free
 * @average: of his events in a window, 16 bits of fraction; the turn's
 * @windows: number n of the throttler is windows[n % 2]
 */
struct hab_share {
	hab_counter key;
	u64 average;
	struct hab_window windows[2];
};

/**
 * struct hab_throttle_shape - how a rate becomes windows
 * @rate: events to keep in a period, 0 to HAB_RATE_MAX, or HAB_RATE_OFF
 * @period_ms: HAB_SECOND_MS to HAB_DAY_MS
 * @windows: that a period has
 * @lookback: how many windows averages look back on, at least 1
 * @fill: 1: intervals are at most half their mean, so that steady events use up every
 *	window and all its samples stand for the same number of events; 0: as the JDK
 *	draws them, which leaves some windows half empty, 3.5 % of the rate unused at 5 windows
 *	a second, and samples of very different weights
 */
struct hab_throttle_shape {
	u32 rate;
	u32 period_ms;
	u32 windows;
	u32 lookback;
	u32 fill;
};

/**
 * struct hab_throttle - a throttler
 * @number: of the active window, from 1; store release in the turn pairs with load
 *	acquire in the offer
 * @filling: number of the window that was filled in last, or is just now
 * @seeds: of the windows with an even and an odd number
 * @hosts: the share where those without one count
 * @offered: events, ever
 * @sampled: of these the ones kept to the end; the others were throttled
 * @unplaced: events of the window that found the table full
 * @off: keep all
 * @shape: what was set
 * @offered_before: @offered at the last turn
 * @phase: number of the active window within its period
 * @carried: windows since debt was forgiven last
 * @owners: how many have a window of their own
 * @quota: of the active window
 * @excess: samples that came between a turn's reading and its closing of a window, still
 *	to be taken off a window's quota
 * @shares: a table by hash of the key; the last is the common share
 * @claims: the turn's
 */
struct hab_throttle {
	u64 number;
	hab_counter filling;
	u64 seeds[2];
	u32 hosts[2];
	hab_counter offered;
	hab_counter sampled;
	hab_counter unplaced;
	u32 off;
	struct hab_throttle_shape shape;
	u64 offered_before;
	u32 phase;
	u32 carried;
	u32 owners;
	u64 quota;
	u64 excess;
	struct hab_share shares[HAB_SHARES + 1];
	struct hab_claim claims[HAB_SHARES + 1];
};

/**
 * struct hab_kept - an event that is kept for now
 * @probability: it was kept with if its window has no more candidates than quota;
 *	else that times quota / candidates. 2^32 = certain.
 * @number: of the window; 0: the probability is final
 * @share: index of the share
 * @quota: of the window
 * @place: within the window
 */
struct hab_kept {
	u64 probability;
	u64 number;
	u32 share;
	u32 quota;
	struct hab_place place;
};

/**
 * struct hab_window_end - a window with samples is over
 * @number: of the window
 * @share: index of the share
 * @quota: that it had
 * @candidates: that it had
 */
struct hab_window_end {
	u64 number;
	u32 share;
	u32 quota;
	u64 candidates;
};

typedef void (*hab_window_end_fn)(void *context, const struct hab_window_end *end);

/**
 * hab_throttle_set_rate - set or change the rate
 * @throttle: in use, or zeroed
 * @rate: events to keep in a period, 0 to HAB_RATE_MAX, or HAB_RATE_OFF
 * @period_ms: HAB_SECOND_MS, HAB_MINUTE_MS, HAB_HOUR_MS or HAB_DAY_MS
 * @ended: told of the windows that this ends; may be NULL
 * @context: for @ended
 *
 * Begins a new window with fresh averages, by the JDK's rules. The caller turns it
 * after hab_throttle_window_ms() of the new rate.
 *
 * Return: 0 or -EINVAL.
 */
int hab_throttle_set_rate(struct hab_throttle *throttle, u32 rate, u32 period_ms,
			  hab_window_end_fn ended, void *context);

/* The same with windows of one's own. */
int hab_throttle_set_shape(struct hab_throttle *throttle, const struct hab_throttle_shape *shape,
			   hab_window_end_fn ended, void *context);

/* How long a window lasts, in milliseconds. */
static inline u32 hab_throttle_window_ms(const struct hab_throttle *throttle)
{
	return throttle->shape.period_ms / throttle->shape.windows;
}

/**
 * hab_throttle_offer - one event
 * @throttle: any context, any CPU
 * @key: whose, not 0
 * @kept: filled in if it is kept
 *
 * Return: whether it is kept for now. It was counted as offered; and as sampled, unless
 * it replaces another one, which is throttled then.
 */
bool hab_throttle_offer(struct hab_throttle *throttle, u64 key, struct hab_kept *kept);

/* Events that were offered and not kept, ever. */
static inline u64 hab_throttle_throttled(const struct hab_throttle *throttle)
{
	/* In this order: what is kept in between makes it smaller, not negative. */
	u64 sampled = hab_counter_read(&throttle->sampled);

	return hab_counter_read(&throttle->offered) - sampled;
}

/**
 * hab_throttle_rotate - the active windows are over
 * @throttle: the caller holds its lock
 * @random: 64 uniform bits
 * @ended: told of each window that had samples; may be NULL
 * @context: for @ended
 *
 * Return: events that the windows had measured.
 */
u64 hab_throttle_rotate(struct hab_throttle *throttle, u64 random, hab_window_end_fn ended,
		      void *context);

#endif /* HAB_CORE_THROTTLE_H */
