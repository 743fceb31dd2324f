/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The sampling interval of a process: the mean distance in bytes of its samples. It follows the
 * rate of allocation, so that the process offers the throttler two to four times the samples that
 * it may keep, however fast it allocates.
 *
 * A sample is drawn without memory: an object of n bytes is sampled with probability
 * 1 - exp(-n / interval), whatever happened before. So a draw can be made anew whenever the interval
 * has changed, and each sample stands for n / (1 - exp(-n / interval)) bytes with the interval that
 * it was drawn with.
 *
 * Two rules. At the end of a window the interval is corrected towards OFFERS_MEAN times the
 * process's share, by a tenth or less, or it grows by a quarter or less: the number of offers varies
 * by chance, and each jump costs accuracy. Within a window, the interval doubles as soon as more
 * than OFFERS_MOST times the share were offered, and once more at each further quarter of the share:
 * after a pause a process may allocate a million times as fast.
 */
#ifndef HAB_CORE_INTERVAL_H
#define HAB_CORE_INTERVAL_H

#include "core/os.h"
#include "uapi/hab.h"

#define HAB_OFFERS_MEAN_10   25u /* in tenths of the share */
#define HAB_OFFERS_MOST	     4u
#define HAB_SHARE_SHIFT	     8 /* shares of a window have as many bits of fraction */
#define HAB_INTERVAL_OFFERS_MAX (1u << 30)

/**
 * struct hab_interval - the sampling interval of a process
 * @mean: in bytes
 * @offered: samples in this window
 * @limit: beyond so many @mean doubles
 * @step: and again after so many more, at least 1
 *
 * @mean, @limit and @step are written by hab_interval_turn(), which the caller serialises, and
 * @mean by offers as well: each of two that come at the same time may undo the other's change.
 */
struct hab_interval {
	u64 mean;
	hab_counter offered;
	u32 limit;
	u32 step;
};

/* @share: as for hab_interval_turn(). */
static inline void hab_interval_set_limit(struct hab_interval *interval, u64 share, u32 random)
{
	u64 most = min(share, (u64)HAB_INTERVAL_OFFERS_MAX) * HAB_OFFERS_MOST;
	/* A share below one sample: rounded at random. */
	u64 limit = (most + random % (1u << HAB_SHARE_SHIFT)) >> HAB_SHARE_SHIFT;

	WRITE_ONCE(interval->limit, (u32)min(limit, (u64)HAB_INTERVAL_OFFERS_MAX));
	WRITE_ONCE(interval->step, max((u32)(limit / (4 * HAB_OFFERS_MOST)), 1u));
}

/* The default, with @share as for hab_interval_turn(). */
static inline void hab_interval_begin(struct hab_interval *interval, u64 share)
{
	WRITE_ONCE(interval->mean, HAB_SAMPLING_INTERVAL_DEFAULT);
	hab_counter_set(&interval->offered, 0);
	hab_interval_set_limit(interval, share, 0);
}

/**
 * hab_interval_offer - count a sample that the process offers
 * @interval: any context, any CPU
 *
 * Doubles @mean if there were too many in this window.
 */
static inline void hab_interval_offer(struct hab_interval *interval)
{
	u64 offered = hab_counter_increment(&interval->offered), mean;
	u32 limit = READ_ONCE(interval->limit);

	if (offered <= limit || (offered - limit - 1) % READ_ONCE(interval->step))
		return;
	mean = READ_ONCE(interval->mean);
	WRITE_ONCE(interval->mean, min(mean * 2, HAB_SAMPLING_INTERVAL_MOST));
}

/**
 * hab_interval_turn - a window is over
 * @interval: calls are serialised
 * @share: samples that the process may keep in the next window, with HAB_SHARE_SHIFT bits of
 *	fraction
 * @random: at least HAB_SHARE_SHIFT uniform bits
 *
 * Return: samples offered in the window.
 */
static inline u64 hab_interval_turn(struct hab_interval *interval, u64 share, u32 random)
{
	u64 offered = hab_counter_exchange(&interval->offered, 0), mean = READ_ONCE(interval->mean);
	u64 target = min(share, (u64)HAB_INTERVAL_OFFERS_MAX) * HAB_OFFERS_MEAN_10 / 10;
	u64 found = min(offered, (u64)HAB_INTERVAL_OFFERS_MAX) << HAB_SHARE_SHIFT;

	/* Between 9/10 and 5/4 of what it was; a window beyond the limit has doubled it already. */
	found = max(found, target - target / 10);
	found = min(found, target + target / 4);
	if (target && offered <= READ_ONCE(interval->limit))
		mean = hab_mul_div(mean, found, target);
	mean = max(mean, (u64)HAB_SAMPLING_INTERVAL_LEAST);
	WRITE_ONCE(interval->mean, min(mean, HAB_SAMPLING_INTERVAL_MOST));
	hab_interval_set_limit(interval, share, random);
	return offered;
}

/*
 * Without the module a process has its interval in the library, and windows of
 * HAB_INTERVAL_WINDOW_NS. habd writes what processes may keep to a file that they map.
 */
#define HAB_INTERVAL_PAGE_PATH	"/run/hab/sampling" /* environment variable HAB_SAMPLING: another */
#define HAB_INTERVAL_WINDOW_NS	200000000ull
#define HAB_INTERVAL_PAGE_MAGIC 0x67706968u /* "hipg", little endian */
#define HAB_INTERVAL_PAGE_BYTES 4096

/**
 * struct hab_interval_page - the start of that file, of HAB_INTERVAL_PAGE_BYTES
 * @magic: HAB_INTERVAL_PAGE_MAGIC
 * @share: samples that each process may keep in a window, as for hab_interval_turn(); 0: not known.
 *	Changes at any moment
 */
struct hab_interval_page {
	u32 magic;
	u32 share;
};

#endif /* HAB_CORE_INTERVAL_H */
