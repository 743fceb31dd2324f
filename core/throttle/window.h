/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The choice of a window's samples: each event has the same probability to stay, however many
 * come. The module, the BPF program of the probes and habd are built with this one text.
 *
 * The events are cut into strata of @interval events. One event of each stratum, drawn by a hash,
 * is the stratum's candidate. The first @quota candidates take a slot each. Candidate k after
 * them is kept with probability quota / k, and replaces the sample in a random slot (reservoir
 * sampling, algorithm R), so that at any time the slots hold a uniform choice of all candidates.
 * An event thus stays with probability 1 / interval * min(1, quota / candidates); the second
 * factor is known at the window's end.
 */
#ifndef HAB_CORE_WINDOW_H
#define HAB_CORE_WINDOW_H

#include "core/arithmetic.h"

#define HAB_PROBABILITY_ONE (1ull << 32)

/**
 * struct hab_place - where a kept event is
 * @slot: below the window's quota
 * @candidate: number of the event among the window's candidates, from 1
 */
struct hab_place {
	u32 slot;
	u64 candidate;
};

/* True if a kept event replaces the sample in its slot; false if the slot was free. */
static inline bool hab_window_replaces(u64 candidate, u64 quota)
{
	return candidate > quota;
}

static inline u64 hab_mix(u64 value)
{
	value ^= value >> 30;
	value *= 0xbf58476d1ce4e5b9ull;
	value ^= value >> 27;
	value *= 0x94d049bb133111ebull;
	return value ^ value >> 31;
}

#define HAB_MIX_STEP 0x9e3779b97f4a7c15ull /* of a sequence of hab_mix(): splitmix64's */

static inline u64 hab_window_hash(u64 seed, u64 number)
{
	return hab_mix(seed + number * HAB_MIX_STEP);
}

/* The position of the candidate within stratum @stratum; both count from 0. */
static inline u64 hab_window_position(u64 seed, u64 stratum, u32 interval)
{
	return hab_mul_shift(hab_window_hash(seed, 2 * stratum), interval, 64);
}

/* Candidates among the first @measured events. */
static inline u64 hab_window_candidates(u64 seed, u32 interval, u64 measured)
{
	u64 strata = hab_div(measured, interval);
	u64 rest = measured - strata * interval;

	return strata + (hab_window_position(seed, strata, interval) < rest);
}

/* True, and @place is filled in, if event @ordinal, from 1, is kept for now. */
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
