// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Max-min fair division: every claim gets its demand, up to one level for all.
 *
 * The hard case is more claims than quota: then the claims that get 1 are drawn at random, so that
 * none is always left out, and in one pass, so that the sum stays exact.
 */
#include "core/throttle/max_min.h"

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
