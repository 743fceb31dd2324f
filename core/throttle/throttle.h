/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The throttler: it decides which events become samples. Adaptive, with windows, after the JDK's
 * (jfr/support/jfrAdaptiveSampler.cpp, jfr/recorder/service/jfrEventThrottler.cpp), but each
 * window's quota is divided max-min fairly among groups (owners, or cgroups), and a group's part
 * among its shares (processes).
 *
 * Synchronisation: hab_throttle_offer() may run on all CPUs at once, in any context, takes no lock
 * and never waits. The caller serialises hab_throttle_rotate() and hab_throttle_set_rate(). Each
 * share has two windows. A rotation fills in the idle ones, publishes all of them by one store, and
 * then closes the old ones: an offer that has read the old number counts in the old window until it
 * is closed, and in the new one after that. So each event counts exactly once.
 *
 * A group has at most HAB_GROUP_SHARES places in the table of shares. Its other processes have one
 * share together, the group's surplus share. So an owner with any number of processes cannot fill
 * the table.
 *
 * A key may have no window of its own: it is new, or has few events, or the table is full. Its
 * events count in the common share, which is a group by itself. If no events are expected there,
 * the common share has no quota, and its few events count in the largest share. So a throttler with
 * one process works as the JDK's.
 *
 * Five differences from the JDK are intended. A timer rotates the windows, and not an event, so
 * none is dropped uncounted. A period's quota is spread over its windows without a remainder: 14/s
 * is 14/s. An event beyond a window's quota may replace one that was kept, see window.h, so every
 * event has the same probability. The kept event of an interval is drawn at random. Intervals are
 * not drawn, and a tenth shorter than the JDK's are on average (@fill of struct
 * hab_throttle_shape).
 */
#ifndef HAB_CORE_THROTTLE_H
#define HAB_CORE_THROTTLE_H

#include "core/throttle/max_min.h"
#include "core/os.h"
#include "core/throttle/window.h"
#include "uapi/hab.h"

#define HAB_RATE_MAX   1000000u
#define HAB_RATE_OFF   (HAB_RATE_MAX + 1) /* no throttle: keep all */

#define HAB_SECOND_MS  1000u
#define HAB_MINUTE_MS  (60 * HAB_SECOND_MS)
#define HAB_HOUR_MS    (60 * HAB_MINUTE_MS)
#define HAB_DAY_MS     (24 * HAB_HOUR_MS)

/* A default rate of so many samples a second and CPU, and of a machine with at least two CPUs. */
static inline u32 hab_rate_of_cpus(u32 a_cpu, u32 cpus)
{
	return min(max(cpus, 2u) * a_cpu, HAB_RATE_MAX);
}

/* The machine's, of @cpus: watching costs the same part of each machine. */
static inline u32 hab_rate_default(u32 cpus)
{
	return hab_rate_of_cpus(75, cpus);
}

#ifndef HAB_SHARES	/* explored tests have fewer */
#define HAB_SHARES 512u /* a power of two */
#endif
#define HAB_SHARE_COMMON HAB_SHARES /* index of the common share */
#ifndef HAB_GROUP_SHARES
#define HAB_GROUP_SHARES (HAB_SHARES / 8) /* places that a group can have */
#endif

/*
 * The key of a share: the 40 lower bits of its group's number, and its process within that, from 1.
 * The kernel's pids have 22 bits.
 */
#define HAB_SHARE_KEY(group, process) ((u64)(group) << 24 | (process))
#define HAB_SHARE_GROUP(key)	      ((key) >> 24)
#define HAB_SURPLUS		      0xffffffu	   /* the process of a group's surplus share */
#define HAB_GROUP_COMMON	      (1ull << 40) /* of the common share: after all others */

#define HAB_WINDOW_CLOSED	      (1ull << 62)
#define HAB_WINDOW_DECIDES	      (1ull << 61)

/**
 * struct hab_window - a window of a share
 * @measured: number of events, plus HAB_WINDOW_DECIDES if this window decides about them; otherwise
 *	they also count in the fallback share's window, which decides. One count gives both, so they
 *	cannot contradict. All CPUs count here
 * @interval: length of a stratum; 0 in a window that does not decide
 * @quota: number of slots
 * @probability: of an event to be a candidate, 2^32 = certain
 *
 * At its end the counter of a window is exchanged for HAB_WINDOW_CLOSED: an event that counts later
 * finds the window closed and counts in the next one, so the number of candidates is exact even
 * while other CPUs count.
 *
 * All but @measured is written while @measured is closed, and read after a count in it, which pairs
 * with the release that opened it.
 */
struct hab_window {
	hab_counter measured;
	u32 interval;
	u32 quota;
	u64 probability;
};

/**
 * struct hab_share - a source of events
 * @key: HAB_SHARE_KEY(), or 0: free
 * @average: of its events in a window, 16 bits of fraction; for rotations only
 * @windows: number n of the throttler is windows[n % 2]
 */
struct hab_share {
	hab_counter key;
	u64 average;
	struct hab_window windows[2];
};

/**
 * struct hab_throttle_shape - a rate and its windows
 * @rate: events to keep in a period, 0 to HAB_RATE_MAX, or HAB_RATE_OFF
 * @period_ms: HAB_SECOND_MS to HAB_DAY_MS
 * @windows: number of windows in a period
 * @lookback: number of windows that averages are of, at least 1
 * @fill: 1: intervals are 9/10 of what the average needs, so that steady events use up every
 *	window, few are replaced later, and all samples stand for about the same number of events;
 *	0: as the JDK draws them, which leaves some windows half empty (3.5 % of the rate at 5
 *	windows a second), with samples of very different weights
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
 * @number: of the active window, from 1; the store release in the rotation pairs with the load
 *	acquire in the offer
 * @filling: number of the window that was filled in last, or is being filled in
 * @seeds: of the windows with an even and an odd number
 * @fallbacks: likewise: index of the share that counts events of keys without a window of their own
 * @hash_seed: of the table, so that no user can choose processes whose places are another's; set
 *	before the first offer
 * @offered: all events
 * @sampled: events kept to the end; all others were throttled
 * @unplaced: events of the window that found the table full
 * @off: keep all events
 * @shape: as set
 * @offered_before: @offered at the last rotation
 * @phase: number of the active window within its period
 * @carried: windows since unused quota was dropped last
 * @owners: shares that have a window of their own
 * @quota: of the active window
 * @excess: samples between a rotation's reading of a window and its closing, to be subtracted from
 *	the next quota
 * @shares: a table by hash of the key; the last is the common share
 * @claims: this and the next for rotations only
 * @groups: of the claims
 */
struct hab_throttle {
	u64 number;
	hab_counter filling;
	u64 seeds[2];
	u32 fallbacks[2];
	u64 hash_seed;
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
	struct hab_claim groups[HAB_SHARES + 1];
};

/**
 * struct hab_kept - an event that is kept for now
 * @probability: with which it was kept if its window ends with at most quota candidates; else that
 *	times quota / candidates. 2^32 = certain
 * @number: of the window; 0: the probability is final
 * @share: index of the share
 * @quota: of the window
 * @next: the share's next event will be kept for now, too, unless the window ends before; also set
 *	for an event that is not kept
 * @place: within the window
 */
struct hab_kept {
	u64 probability;
	u64 number;
	u32 share;
	u32 quota;
	bool next;
	struct hab_place place;
};

/**
 * struct hab_window_end - a window with samples that is over
 * @number: of the window
 * @share: index of the share
 * @quota: of the window
 * @candidates: of the window
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
 * @ended: called for each window with samples that this ends; may be NULL
 * @context: for @ended
 *
 * Begins a new window with new averages, by the JDK's rules. The caller rotates it after
 * hab_throttle_window_ms() of the new rate.
 *
 * Return: 0 or -EINVAL.
 */
int hab_throttle_set_rate(struct hab_throttle *throttle, u32 rate, u32 period_ms,
			  hab_window_end_fn ended, void *context);

/* The shape that it gives to the throttle. */
struct hab_throttle_shape hab_throttle_shape(u32 rate, u32 period_ms);

/* The same with windows of the caller's choice. */
int hab_throttle_set_shape(struct hab_throttle *throttle, const struct hab_throttle_shape *shape,
			   hab_window_end_fn ended, void *context);

/* How long a window lasts, in milliseconds. */
static inline u32 hab_shape_window_ms(const struct hab_throttle_shape *shape)
{
	return shape->period_ms / shape->windows;
}

static inline u32 hab_throttle_window_ms(const struct hab_throttle *throttle)
{
	return hab_shape_window_ms(&throttle->shape);
}

/**
 * hab_throttle_offer - one event
 * @throttle: any context, any CPU
 * @key: HAB_SHARE_KEY(), not 0
 * @kept: filled in if it is kept; else only @next is
 *
 * Return: true if it is kept for now. It is counted as offered. A kept event is counted as sampled,
 * unless it replaces another one, which is throttled then.
 */
bool hab_throttle_offer(struct hab_throttle *throttle, u64 key, struct hab_kept *kept);

/**
 * hab_throttle_quota - how many events of a process the active window may keep
 * @throttle: any context, any CPU
 * @key: HAB_SHARE_KEY(), not 0
 *
 * Return: the quota of its share's window; 0 if it has no window of its own.
 */
u32 hab_throttle_quota(struct hab_throttle *throttle, u64 key);

/* Events that were offered and not kept. */
static inline u64 hab_throttle_throttled(const struct hab_throttle *throttle)
{
	u64 sampled = hab_counter_read(&throttle->sampled);
	u64 offered = hab_counter_read(&throttle->offered);

	/* Nothing orders the two: an event that is kept meanwhile may be in @sampled alone. */
	return offered > sampled ? offered - sampled : 0;
}

/**
 * hab_throttle_rotate - end the active windows and begin new ones
 * @throttle: the caller holds its lock
 * @random: 64 uniform bits
 * @ended: called for each window with samples; may be NULL
 * @context: for @ended
 *
 * Return: events that the windows had measured.
 */
u64 hab_throttle_rotate(struct hab_throttle *throttle, u64 random, hab_window_end_fn ended,
			void *context);

#endif /* HAB_CORE_THROTTLE_H */
