/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The free extents of a heap: memory that was part of a block before and is free again.
 *
 * A bounded set, so it needs no memory of its own, and each operation is short enough for a lock.
 * Adjacent extents are joined. If the set is full the smallest extent is dropped, and the caller
 * counts it as waste. All quantities are granules.
 */
#ifndef HAB_CORE_FREE_EXTENTS_H
#define HAB_CORE_FREE_EXTENTS_H

#include "core/os.h"

#define HAB_MAX_FREE_EXTENTS 128

/* @level: 0 if it was the heap's or a caller's, else 1 + index of the level it was freed from. */
struct hab_extent {
	u64 start;
	u64 size;
	u32 level;
};

struct hab_free_extents {
	u32 nr;
	u64 sum;
	u64 most; /* no extent is larger; the largest may be smaller */
	struct hab_extent extents[HAB_MAX_FREE_EXTENTS];
};

/**
 * hab_free_extents_add - add an extent
 * @set: the set
 * @extent: overlaps none of the set; if it is empty nothing happens
 *
 * Return: the extent that was dropped, of size 0 if none was.
 */
struct hab_extent hab_free_extents_add(struct hab_free_extents *set, struct hab_extent extent);

/**
 * hab_free_extents_largest - find the largest extent
 * @set: the set
 * @least: the size that it must have, at least 1
 *
 * The largest extent lasts longest until the next refill. Most sets have none that is large
 * enough, and @most shows that without a walk.
 *
 * Return: its index, or -1 if it is too small.
 */
int hab_free_extents_largest(struct hab_free_extents *set, u64 least);

/* Takes @size granules, at most all, from the beginning of extent @index. */
void hab_free_extents_take(struct hab_free_extents *set, u32 index, u64 size);

/* true if an extent shares a granule with [start, start + size). */
bool hab_free_extents_overlap(const struct hab_free_extents *set, u64 start, u64 size);

#endif /* HAB_CORE_FREE_EXTENTS_H */
