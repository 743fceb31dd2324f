/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Rests of buffers that were given up: free memory of the heap in small pieces.
 *
 * A bounded set, so that it needs no memory of its own and a lock may be held over any
 * operation on it. Neighbours are joined; when it is full the smallest piece is
 * dropped, and whoever adds counts that as waste. All quantities are granules.
 */
#ifndef HAB_CORE_FREE_EXTENTS_H
#define HAB_CORE_FREE_EXTENTS_H

#include "core/os.h"

#define HAB_MAX_FREE_EXTENTS 128

/* @level left it: 0 for the heap and its callers, else 1 + the level's index. */
struct hab_extent {
	u64 start;
	u64 size;
	u32 level;
};

struct hab_free_extents {
	u32 nr;
	u64 sum;
	u64 most; /* no piece is larger; the largest may have become smaller */
	struct hab_extent rests[HAB_MAX_FREE_EXTENTS];
};

/**
 * hab_free_extents_add - one more piece
 * @rests: the set
 * @rest: a piece that overlaps none of the set; nothing happens if it is empty
 *
 * Return: what did not find room, of size 0 if all did.
 */
struct hab_extent hab_free_extents_add(struct hab_free_extents *rests, struct hab_extent rest);

/**
 * hab_free_extents_largest - where to find memory
 * @rests: the set
 * @least: that it must hold, at least 1
 *
 * The largest piece makes the longest way to the next refill. Most sets have none that is
 * large enough, which is seen without a walk.
 *
 * Return: its index, or -1 if none is that large.
 */
int hab_free_extents_largest(struct hab_free_extents *rests, u64 least);

/* Takes @size granules, at most all, from the beginning of piece @index. */
void hab_free_extents_take(struct hab_free_extents *rests, u32 index, u64 size);

/* Does any piece share a granule with [start, start + size)? */
bool hab_free_extents_overlap(const struct hab_free_extents *rests, u64 start, u64 size);

#endif /* HAB_CORE_FREE_EXTENTS_H */
