// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The accepting side of throttle.h: one event.
 *
 * The hard case is an offer that was held up between reading the active window's number
 * and counting. If that window was closed meanwhile, the count says so, and the offer
 * starts again with the next. If two turns went by after it had counted, the
 * window's fields may be another window's by now: then the event is not kept.
 */
#include "throttle.h"

#define PROBES 8u

/*
 * Who @key is: his place is one of PROBES, the first free one when he comes. All are
 * looked at, so a place that becomes free before his own does him no harm.
 */
static struct hab_share *find_share(struct hab_throttle *throttle, u64 key)
{
	u32 start = hab_mix(key) % HAB_SHARES;
	struct hab_share *share, *vacant = NULL;
	u64 found;
	u32 i;

	for (i = 0; i < PROBES; i++) {
		share = &throttle->shares[(start + i) % HAB_SHARES];
		found = hab_counter_read(&share->key);
		if (found == key)
			return share;
		if (!found && !vacant)
			vacant = share;
	}
	if (!vacant)
		return NULL;
	found = hab_counter_cmpxchg(&vacant->key, 0, key);
	/* Another newcomer was faster: this event has no share, the next looks again. */
	return !found || found == key ? vacant : NULL;
}

/*
 * Counts in the window of @share that has @number. 1: it decides, @ordinal is set;
 * 0: it only counts; -1: it was closed.
 */
static int count(struct hab_share *share, u64 number, u64 *ordinal)
{
	struct hab_window *window = &share->windows[number % 2];

	/* Pairs with the release in open_window(). */
	*ordinal = hab_counter_increment_acquire(&window->measured);
	if (*ordinal > HAB_WINDOW_CLOSED)
		return -1;
	return READ_ONCE(window->interval) != 0;
}

/* Where an event of @key counts: the share that decides, or NULL if a turn came between. */
static struct hab_share *place(struct hab_throttle *throttle, u64 key, u64 number, u64 *ordinal)
{
	struct hab_share *share = find_share(throttle, key);
	int decides = 0;

	if (share)
		decides = count(share, number, ordinal);
	else
		hab_counter_increment(&throttle->unplaced);
	if (!decides) {
		share = &throttle->shares[READ_ONCE(throttle->hosts[number % 2])];
		decides = count(share, number, ordinal);
	}
	return decides > 0 ? share : NULL;
}

static bool keep(struct hab_throttle *throttle, const struct hab_share *share, u64 number,
		 u64 ordinal, struct hab_kept *kept)
{
	const struct hab_window *window = &share->windows[number % 2];
	u32 interval = READ_ONCE(window->interval);
	u64 seed = READ_ONCE(throttle->seeds[number % 2]);

	kept->number = number;
	kept->share = share - throttle->shares;
	kept->points = READ_ONCE(window->points);
	kept->probability = READ_ONCE(window->probability);
	if (!interval || !hab_window_choose(hab_window_hash(seed, kept->share), interval,
					    kept->points, ordinal, &kept->place))
		return false;
	/* Two turns later these fields are another window's. */
	if (hab_load_acquire(&throttle->number) - number > 1)
		return false;
	if (kept->place.candidate <= kept->points)
		hab_counter_increment(&throttle->sampled);
	return true;
}

bool hab_throttle_offer(struct hab_throttle *throttle, u64 key, struct hab_kept *kept)
{
	struct hab_share *share;
	u64 number, ordinal;

	hab_counter_increment(&throttle->offered);
	if (READ_ONCE(throttle->off)) {
		hab_counter_increment(&throttle->sampled);
		memset(kept, 0, sizeof(*kept));
		kept->probability = HAB_PROBABILITY_ONE;
		return true;
	}
	do {
		/* Pairs with the store release in publish(). */
		number = hab_load_acquire(&throttle->number);
		share = place(throttle, key, number, &ordinal);
	} while (!share);
	return keep(throttle, share, number, ordinal, kept);
}
