// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Max-min fair division: every claim gets its demand, up to one level for all.
 *
 * The sum of the quotas is exact, and no claim is always left out. If there are more claims than
 * quota, the claims that get 1 are drawn at random, in one pass.
 */
#include "core/throttle/max_min.h"
#include "core/throttle/window.h"

/* Claim i gets 1 if i * quota / count, plus a random offset, passes a whole number. */
static void draw(struct hab_claim *claims, u32 count, u64 quota, u64 random)
{
	u64 at = hab_mul_shift(random, count, 64);
	u32 i;

	for (i = 0; i < count; i++) {
		at += quota;
		claims[i].quota = at >= count;
		if (at >= count)
			at -= count;
	}
}

static u64 filled(const struct hab_claim *claims, u32 count, u64 level)
{
	u64 sum = 0;
	u32 i;

	for (i = 0; i < count; i++)
		sum += min(claims[i].demand, level);
	return sum;
}

/* The highest level that @quota is enough for, or the highest demand if that is less. */
static u64 find_level(const struct hab_claim *claims, u32 count, u64 quota)
{
	u64 low = 1, high = 1, middle;
	u32 i;

	for (i = 0; i < count; i++)
		high = max(high, claims[i].demand);
	high = min(high, quota);
	while (low < high) {
		middle = low + (high - low + 1) / 2;
		if (filled(claims, count, middle) <= quota)
			low = middle;
		else
			high = middle - 1;
	}
	return low;
}

void hab_max_min_divide(struct hab_claim *claims, u32 count, u64 quota, u64 random)
{
	u64 level, left, each;
	u32 i, at, unmet = 0;

	if (quota < count) {
		draw(claims, count, quota, random);
		return;
	}
	level = find_level(claims, count, quota);
	left = quota;
	for (i = 0; i < count; i++) {
		claims[i].quota = min(claims[i].demand, level);
		left -= claims[i].quota;
		unmet += claims[i].demand > level;
	}
	/* All demands are met: the remainder is for bursts. */
	each = unmet ? 0 : hab_div(left, count);
	left -= each * count;
	at = hab_mul_shift(random, count, 64);
	for (i = 0; i < count; i++, at = at + 1 < count ? at + 1 : 0) {
		claims[at].quota += each;
		if (left && (!unmet || claims[at].demand > level)) {
			claims[at].quota++;
			left--;
		}
	}
}

/* Shell's sort: short, without recursion, and fast if all claims are of one group. */
static void sort_by_group(struct hab_claim *claims, u32 count)
{
	struct hab_claim moved;
	u32 gap, i, j;

	for (gap = count / 2; gap; gap /= 2) {
		for (i = gap; i < count; i++) {
			moved = claims[i];
			for (j = i; j >= gap && claims[j - gap].group > moved.group; j -= gap)
				claims[j] = claims[j - gap];
			claims[j] = moved;
		}
	}
}

/* The groups of sorted claims; their @share is the index of the first claim. */
static u32 find_groups(const struct hab_claim *claims, u32 count, struct hab_claim *groups)
{
	u32 i, nr = 0;

	for (i = 0; i < count; i++) {
		if (!i || claims[i].group != claims[i - 1].group) {
			groups[nr].group = claims[i].group;
			groups[nr].demand = 0;
			groups[nr++].share = i;
		}
		groups[nr - 1].demand += claims[i].demand;
	}
	return nr;
}

/* The chance of one of @count claims, if there is less @quota than claims. */
static u64 chance_of(u64 quota, u32 count)
{
	return quota < count ? hab_mul_div(HAB_PROBABILITY_ONE, quota, count) : HAB_PROBABILITY_ONE;
}

void hab_max_min_divide_groups(struct hab_claim *claims, u32 count, struct hab_claim *groups,
			       u64 quota, u64 random)
{
	u32 nr, g, i, first, end;
	u64 chance;

	sort_by_group(claims, count);
	nr = find_groups(claims, count, groups);
	hab_max_min_divide(groups, nr, quota, random);
	for (g = 0; g < nr; g++) {
		first = groups[g].share;
		end = g + 1 < nr ? groups[g + 1].share : count;
		/* Not the bits that drew the group: both draws must be independent. */
		hab_max_min_divide(claims + first, end - first, groups[g].quota,
				   hab_window_hash(random, g + 1));
		chance = hab_mul_shift(chance_of(quota, nr),
				       chance_of(groups[g].quota, end - first), 32);
		for (i = first; i < end; i++)
			claims[i].chance = chance;
	}
}
