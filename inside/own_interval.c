// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The end of windows in a process that sets its own sampling interval.
 */

#include "lib/clock.h"
#include "inside/own_interval.h"

/* Windows that are ended at once after a pause: enough for any interval to reach its least. */
#define ROTATIONS_MAX 100

void hab_own_interval_rotate(struct hab_own_interval *own, u64 share, u64 least, u64 random)
{
	u64 now = hab_clock_coarse_ns() / HAB_INTERVAL_WINDOW_NS + 1;
	u64 before = READ_ONCE(own->window), rotations;

	if (now == before || hab_word_cmpxchg(&own->window, before, now) != before || !before)
		return;
	for (rotations = min(now - before, (u64)ROTATIONS_MAX); rotations; rotations--)
		hab_interval_turn(&own->interval, share, (u32)random);
	if (READ_ONCE(own->interval.mean) < least)
		hab_interval_set_mean(&own->interval, least);
}
