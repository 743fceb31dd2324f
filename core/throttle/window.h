/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The choice of the events that one window keeps: at most its quota, each event with the same
 * probability, for any number of events.
 *
 * The events are cut into strata of @interval events. One event of each stratum, at a position
 * drawn by a hash, is its candidate. The first @quota candidates get a slot each. Candidate k after
 * that is kept with probability quota / k, and gets the slot of a random earlier one (reservoir
 * sampling, algorithm R), so at any time the slots hold a uniform choice of all candidates. So an
 * event is kept to the end with probability 1 / interval * min(1, quota / candidates). The second
 * factor is known when the window is over.
 */
#ifndef HAB_CORE_WINDOW_H
#define HAB_CORE_WINDOW_H

#include "core/arithmetic.h"

#define HAB_PROBABILITY_ONE (1ull << 32)

/**
 * struct hab_place - the slot of a kept event
 * @slot: below the window's quota
 * @candidate: number of its stratum, from 1; see HAB_REPLACES()
 */
struct hab_place {
	u32 slot;
	u64 candidate;
};

static inline u64 hab_window_hash(u64 seed, u64 number)
{
	return hab_mix(seed + number * HAB_MIX_STEP);
}

/* Position of the candidate within stratum @stratum, counted from 0. */
static inline u64 hab_window_position(u64 seed, u64 stratum, u32 interval)
{
	return hab_mul_shift(hab_window_hash(seed, 2 * stratum), interval, 64);
}

/* Candidates among the first @measured events. */
static inline u64 hab_window_candidates(u64 seed, u32 interval, u64 measured)
{
	u64 strata = hab_div(measured, interval);
	u64 remainder = measured - strata * interval;

	return strata + (hab_window_position(seed, strata, interval) < remainder);
}

/* true if event @ordinal, from 1, is kept for now; @place is set. */
static inline bool hab_window_choose(u64 seed, u32 interval, u32 quota, u64 ordinal,
				     struct hab_place *place)
{
	u64 stratum = hab_div(ordinal - 1, interval);
	u64 slot = stratum;

	if (hab_window_position(seed, stratum, interval) != ordinal - 1 - stratum * interval)
		return false;
	if (stratum >= quota)
		slot = hab_mul_shift(hab_window_hash(seed, 2 * stratum + 1), stratum + 1, 64);
	if (slot >= quota)
		return false;
	place->slot = slot;
	place->candidate = stratum + 1;
	return true;
}

#endif /* HAB_CORE_WINDOW_H */
