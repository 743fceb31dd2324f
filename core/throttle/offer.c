// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Offers to the throttler of throttle.h: one event.
 *
 * An event is decided only by the fields of the window that counted it. An offer may be delayed
 * between reading the active window's number and counting. If that window was closed meanwhile, the
 * count shows it, and the offer starts again with the next window. If the second rotation after
 * that has begun, the fields and the counter may be another window's: then the event is not kept.
 */
#include "core/throttle/throttle.h"
#include "wire/record.h"

#define PROBES 8u

/*
 * The share of @key is in one of PROBES places, the first that was free when the key was new. All
 * are read, so an earlier place that becomes free does no harm. NULL if there is none; @vacant is
 * then a free one of these places, or NULL.
 */
static struct hab_share *look_up(struct hab_throttle *throttle, u64 key, struct hab_share **vacant)
{
	u32 start = hab_mul_shift(hab_window_hash(throttle->hash_seed, key), HAB_SHARES, 64);
	struct hab_share *share;
	u64 found;
	u32 i;

	*vacant = NULL;
	for (i = 0; i < PROBES; i++) {
		share = &throttle->shares[(start + i) % HAB_SHARES];
		found = hab_counter_read(&share->key);
		if (found == key)
			return share;
		if (!found && !*vacant)
			*vacant = share;
	}
	return NULL;
}

static struct hab_share *occupy(struct hab_share *vacant, u64 key)
{
	u64 found;

	if (!vacant)
		return NULL;
	found = hab_counter_cmpxchg(&vacant->key, 0, key);
	/* If another new key was faster this event has no share; the next one tries again. */
	return !found || found == key ? vacant : NULL;
}

/* Keys that become new at the same time may all see the last place, and exceed the limit. */
static bool group_is_full(const struct hab_throttle *throttle, u64 group)
{
	u32 i, places = 0;
	u64 key;

	for (i = 0; i < HAB_SHARES; i++) {
		key = hab_counter_read(&throttle->shares[i].key);
		places += key && HAB_SHARE_GROUP(key) == group;
	}
	return places >= HAB_GROUP_SHARES - 1;
}

/*
 * A new key looks for its group's surplus share first: while there is one, the group is full, and
 * its places need not be counted for each event.
 */
static struct hab_share *find_share(struct hab_throttle *throttle, u64 key)
{
	u64 group = HAB_SHARE_GROUP(key), surplus = HAB_SHARE_KEY(group, HAB_SURPLUS);
	struct hab_share *share, *vacant, *vacant_of_surplus;

	share = look_up(throttle, key, &vacant);
	if (share)
		return share;
	share = look_up(throttle, surplus, &vacant_of_surplus);
	if (share)
		return share;
	if (group_is_full(throttle, group))
		return occupy(vacant_of_surplus, surplus);
	return occupy(vacant, key);
}

/*
 * Counts in the window @number of @share. 1: the window decides, @ordinal is set; 0: it only
 * counts; -1: it was closed.
 */
static int count(struct hab_share *share, u64 number, u64 *ordinal)
{
	struct hab_window *window = &share->windows[number % 2];

	/* Pairs with the release in open_windows(). */
	*ordinal = hab_counter_increment_acquire(&window->measured);
	if (*ordinal > HAB_WINDOW_CLOSED)
		return -1;
	if (*ordinal < HAB_WINDOW_DECIDES)
		return 0;
	*ordinal -= HAB_WINDOW_DECIDES;
	return 1;
}

/* Counts an event of @key. Returns the share that decides, or NULL if a rotation came between. */
static struct hab_share *place(struct hab_throttle *throttle, u64 key, u64 number, u64 *ordinal)
{
	struct hab_share *share = find_share(throttle, key);
	int decides = 0;

	if (share)
		decides = count(share, number, ordinal);
	else
		hab_counter_increment(&throttle->unplaced);
	if (!decides) {
		share = &throttle->shares[READ_ONCE(throttle->fallbacks[number % 2])];
		decides = count(share, number, ordinal);
	}
	return decides > 0 ? share : NULL;
}

/*
 * Whether the share is one of this group. What comes next in another one is not told: who knows it
 * could send an event only where it is kept, and so leave the others' events where none is. If no
 * event is expected in the common share, the largest one counts those that come all the same.
 */
static bool is_of_group(const struct hab_throttle *throttle, const struct hab_share *share, u64 key)
{
	return share != &throttle->shares[HAB_SHARE_COMMON] &&
	       HAB_SHARE_GROUP(hab_counter_read(&share->key)) == HAB_SHARE_GROUP(key);
}

static bool keep(struct hab_throttle *throttle, const struct hab_share *share, u64 key, u64 number,
		 u64 ordinal, struct hab_kept *kept)
{
	const struct hab_window *window = &share->windows[number % 2];
	/* Acquire: all before @filling, which a rotation writes before it writes these. */
	u32 interval = hab_load_acquire(&window->interval);
	u32 quota = hab_load_acquire(&window->quota);
	u64 seed = hab_load_acquire(&throttle->seeds[number % 2]);
	u32 index = share - throttle->shares;

	seed = hab_window_hash(seed, index);
	kept->next = interval && is_of_group(throttle, share, key) &&
		     hab_window_choose(seed, interval, quota, ordinal + 1, &kept->place);
	if (!interval || !hab_window_choose(seed, interval, quota, ordinal, &kept->place))
		return false;
	kept->number = number;
	kept->share = index;
	kept->quota = quota;
	kept->probability = hab_load_acquire(&window->probability);
	/* After two rotations these fields, and perhaps the count, belong to a later window. */
	if (hab_counter_read(&throttle->filling) - number > 1)
		return false;
	if (!HAB_REPLACES(kept->place.candidate, kept->quota))
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
		kept->next = true;
		return true;
	}
	do {
		/* Pairs with the store release in publish(). */
		number = hab_load_acquire(&throttle->number);
		share = place(throttle, key, number, &ordinal);
	} while (!share);
	return keep(throttle, share, key, number, ordinal, kept);
}

u32 hab_throttle_quota(struct hab_throttle *throttle, u64 key)
{
	u64 number = hab_load_acquire(&throttle->number);
	struct hab_share *share, *vacant;

	share = look_up(throttle, key, &vacant);
	return share ? READ_ONCE(share->windows[number % 2].quota) : 0;
}
