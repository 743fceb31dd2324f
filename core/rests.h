/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Rests of buffers that were given up: free memory of the heap in small pieces.
 *
 * A bounded set, so that it needs no memory of its own and a lock may be held over any
 * operation on it. Neighbours are joined; when it is full the smallest piece is
 * dropped, and whoever adds counts that as waste. All quantities are granules.
 */
#ifndef HAB_CORE_RESTS_H
#define HAB_CORE_RESTS_H

#include "os.h"

#define HAB_MAX_RESTS 128

/* @level left it: 0 for the heap and its callers, else 1 + the level's index. */
struct hab_rest {
	u64 start;
	u64 size;
	u32 level;
};

struct hab_rests {
	u32 nr;
	u64 sum;
	u64 most; /* no piece is larger; the largest may have become smaller */
	struct hab_rest rests[HAB_MAX_RESTS];
};

/**
 * hab_rests_add - one more piece
 * @rests: the set
 * @rest: a piece that overlaps none of the set; nothing happens if it is empty
 *
 * Return: what did not find room, of size 0 if all did.
 */
struct hab_rest hab_rests_add(struct hab_rests *rests, struct hab_rest rest);

/**
 * hab_rests_largest - where to find memory
 * @rests: the set
 * @least: that it must hold, at least 1
 *
 * The largest piece makes the longest way to the next refill. Most sets have none that is
 * large enough, which is seen without a walk.
 *
 * Return: its index, or -1 if none is that large.
 */
int hab_rests_largest(struct hab_rests *rests, u64 least);

/* Takes @size granules, at most all, from the beginning of piece @index. */
void hab_rests_take(struct hab_rests *rests, u32 index, u64 size);

/* Does any piece share a granule with [start, start + size)? */
bool hab_rests_overlap(const struct hab_rests *rests, u64 start, u64 size);

#endif /* HAB_CORE_RESTS_H */
