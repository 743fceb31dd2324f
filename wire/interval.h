/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The sampling interval of a process: the mean distance in bytes of its samples. It follows the
 * rate of allocation, so that the process offers the throttler one to three times the samples that
 * it may keep, however fast it allocates. Each offer costs the program a kernel entry, so there are
 * only so many more than it may keep as let the windows of a steady process fill their quota.
 *
 * A sample is drawn without memory: an object of n bytes is sampled with probability
 * 1 - exp(-n / interval), whatever happened before. So a draw can be made anew whenever the
 * interval has changed, and each sample stands for n / (1 - exp(-n / interval)) bytes with the
 * interval that it was drawn with. And the intervals of a window's samples add up to about the
 * bytes that the process allocated in it, if its objects are smaller than the interval.
 *
 * Two rules. At the end of a window the interval becomes the bytes of the last windows, averaged,
 * divided by OFFERS_MEAN times the process's share. Within a window, the interval doubles as soon
 * as more than OFFERS_MOST times the share were offered, and once more at each further eighth of
 * the share: after a pause a process may allocate a million times as fast. Such a window is not
 * averaged with those before.
 *
 * An owner has an interval as well: the one that all of the owner's processes would have if they
 * were one. A process draws with it in its first window, and in any window in which they offered
 * too many together: a hundred processes may begin, or wake up, at once. It is not the machine's,
 * or one owner could make the samples of all others rare.
 */
#ifndef HAB_CORE_INTERVAL_H
#define HAB_CORE_INTERVAL_H

#include "core/os.h"
#include "uapi/hab.h"

/* Bytes. Intervals are set from _LEAST to _MOST; a program may use any up to _MAX. */
#define HAB_SAMPLING_INTERVAL_DEFAULT (1ull << 19)
#define HAB_SAMPLING_INTERVAL_LEAST   (1ull << 12)
#define HAB_SAMPLING_INTERVAL_MOST    (1ull << 26)

#define HAB_OFFERS_MEAN_10   14u /* in tenths of the share */
#define HAB_OFFERS_MOST	     3u
#define HAB_OFFERS_SPARE     3u		  /* beyond OFFERS_MOST: small shares vary more */
#define HAB_INTERVAL_WINDOWS 10u	  /* that @average is of */
#define HAB_SHARE_SHIFT	     8		  /* shares of a window have as many bits of fraction */
#define HAB_SHARE_MAX	     (1ull << 36) /* a larger share counts as this */
#define HAB_INTERVAL_WINDOW_NS 200000000ull	  /* where the process sets the interval itself */
#define HAB_SHARE_DEFAULT    (30ull << HAB_SHARE_SHIFT) /* a window of the least default rate */

/* The share by which about so many samples a second are offered, all of which are kept. */
static inline u64 hab_share_of_rate(u64 per_second)
{
	return hab_div((min(per_second, HAB_SHARE_MAX >> HAB_SHARE_SHIFT) << HAB_SHARE_SHIFT) * 10,
		       HAB_OFFERS_MEAN_10 * (1000000000 / HAB_INTERVAL_WINDOW_NS));
}

/**
 * struct hab_interval - a sampling interval
 * @mean: in bytes
 * @average: bytes allocated in a window, 0: none so far
 * @bytes: sum over the samples of this window of the intervals that they were drawn with
 * @offered: samples in this window
 * @limit: beyond so many @mean doubles
 * @step: and again after so many more, at least 1
 *
 * hab_interval_turn() writes all of them; its caller serialises it. Offers write @mean and @bytes
 * as well. A concurrent change may be lost.
 */
struct hab_interval {
	u64 mean;
	u64 average;
	u64 bytes;
	hab_counter offered;
	u32 limit;
	u32 step;
};

static inline void hab_interval_set_mean(struct hab_interval *interval, u64 mean)
{
	mean = max(mean, HAB_SAMPLING_INTERVAL_LEAST);
	WRITE_ONCE(interval->mean, min(mean, HAB_SAMPLING_INTERVAL_MOST));
}

static inline void hab_interval_set_limit(struct hab_interval *interval, u64 share, u32 random)
{
	u64 most = min(share, HAB_SHARE_MAX) * HAB_OFFERS_MOST;
	/* Rounded at random. */
	u32 limit = (most + random % (1u << HAB_SHARE_SHIFT)) >> HAB_SHARE_SHIFT;

	WRITE_ONCE(interval->limit, limit + HAB_OFFERS_SPARE);
	WRITE_ONCE(interval->step, max(limit / (8 * HAB_OFFERS_MOST), 1u));
}

/**
 * hab_interval_begin - the interval of a new owner or process, or after a change of the rate
 * @interval: zeroed, or in use; calls are serialised
 * @owner: of a new process; else NULL
 * @share: as for hab_interval_turn()
 */
static inline void hab_interval_begin(struct hab_interval *interval,
				      const struct hab_interval *owner, u64 share)
{
	u64 mean = owner ? READ_ONCE(owner->mean) : 0;

	WRITE_ONCE(interval->average, 0);
	WRITE_ONCE(interval->bytes, 0);
	hab_counter_set(&interval->offered, 0);
	hab_interval_set_mean(interval, max(mean, HAB_SAMPLING_INTERVAL_DEFAULT));
	hab_interval_set_limit(interval, share, 0);
}

/* true if @interval is of a process that is expected to offer samples. */
static inline bool hab_interval_is_active(const struct hab_interval *interval)
{
	return READ_ONCE(interval->average) >= HAB_SAMPLING_INTERVAL_LEAST;
}

/*
 * Returns true if there are too many in this window. All is 0 in a child by fork() from a signal
 * handler.
 */
static inline bool hab_interval_count(struct hab_interval *interval, u64 bytes)
{
	u64 offered = hab_counter_increment(&interval->offered);
	u32 limit = READ_ONCE(interval->limit), step = READ_ONCE(interval->step);

	WRITE_ONCE(interval->bytes, hab_add_saturated(READ_ONCE(interval->bytes), bytes));
	if (offered > limit && !((offered - limit - 1) % (step ? step : 1)))
		hab_interval_set_mean(interval, READ_ONCE(interval->mean) * 2);
	return offered > limit;
}

/**
 * hab_interval_offer - count a sample that a process offers
 * @interval: the process's; any context, any CPU
 * @owner: the owner's; NULL: there is none
 * @drawn: the interval that the sample was drawn with
 *
 * Changes @mean of both if there were too many in this window.
 */
static inline void hab_interval_offer(struct hab_interval *interval, struct hab_interval *owner,
				      u64 drawn)
{
	u64 mean = READ_ONCE(interval->mean), owners;
	bool many;

	hab_interval_count(interval, drawn);
	/* A program that has fixed its interval changes only its own process's. */
	if (!owner || drawn < mean / 4)
		return;
	many = hab_interval_count(owner, drawn);
	owners = READ_ONCE(owner->mean);
	if ((many || !READ_ONCE(interval->average)) && READ_ONCE(interval->mean) < owners)
		WRITE_ONCE(interval->mean, owners);
}

/**
 * hab_interval_turn - a window is over
 * @interval: calls are serialised
 * @share: samples that the process or owner may keep in the next window, with HAB_SHARE_SHIFT bits
 *	of fraction; without what earlier windows left unused
 * @random: at least HAB_SHARE_SHIFT uniform bits
 *
 * Return: samples offered in the window.
 */
static inline u64 hab_interval_turn(struct hab_interval *interval, u64 share, u32 random)
{
	u64 offered = hab_counter_exchange(&interval->offered, 0), average = interval->average;
	u64 bytes = min(READ_ONCE(interval->bytes), HAB_ARENA_MAX);

	WRITE_ONCE(interval->bytes, 0);
	if (!average || offered > interval->limit)
		average = bytes;
	else if (bytes > average)
		average += hab_div(bytes - average, HAB_INTERVAL_WINDOWS);
	else
		average -= hab_div(average - bytes, HAB_INTERVAL_WINDOWS);
	WRITE_ONCE(interval->average, average);
	share = max(min(share, HAB_SHARE_MAX), 1ull);
	if (average)
		hab_interval_set_mean(interval, hab_div((average << HAB_SHARE_SHIFT) * 10,
							share * HAB_OFFERS_MEAN_10));
	hab_interval_set_limit(interval, share, random);
	return offered;
}

#endif /* HAB_CORE_INTERVAL_H */
