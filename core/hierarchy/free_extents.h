/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The free extents of a heap: memory that was part of a block before and is free again.
 *
 * A bounded set, so it needs no memory of its own, and each operation is short enough for a lock.
 * Adjacent extents are joined. If the set is full the smallest extent is dropped, and the caller
 * counts it as waste. All quantities are granules.
 *
 * Dropped memory is not lost: the arena has HAB_SEGMENTS segments, and the set counts the dropped
 * granules of each. When all of a segment is dropped or free it is recovered as a whole.
 */
#ifndef HAB_CORE_FREE_EXTENTS_H
#define HAB_CORE_FREE_EXTENTS_H

#include "core/os.h"

#define HAB_MAX_FREE_EXTENTS 128
#ifndef HAB_SEGMENTS /* explored tests have fewer */
#define HAB_SEGMENTS 1024u
#endif

/* @level: 0 if it was the heap's or a caller's, else 1 + index of the level it was freed from. */
struct hab_extent {
	u64 start;
	u64 size;
	u32 level;
};

/**
 * struct hab_free_extents - the set
 * @nr: extents in it
 * @sum: of their sizes
 * @most: no extent is larger; the largest may be smaller
 * @extents: in no order
 * @arena: size of the arena
 * @segment: size of a segment; the last one ends with the arena
 * @lost: sum of @dropped, which is all waste
 * @dropped: granules of each segment that were dropped since the last reset and not recovered
 */
struct hab_free_extents {
	u32 nr;
	u64 sum;
	u64 most;
	struct hab_extent extents[HAB_MAX_FREE_EXTENTS];
	u64 arena;
	u64 segment;
	u64 lost;
	u32 dropped[HAB_SEGMENTS];
};

/* An empty set; @arena stays for the next call if it is 0. */
void hab_free_extents_init(struct hab_free_extents *set, u64 arena);

/**
 * hab_free_extents_add - add an extent
 * @set: the set
 * @extent: overlaps none of the set; if it is empty nothing happens
 *
 * Return: the extent that was dropped, of size 0 if none was. Segments that are complete with
 * @extent are recovered, so @lost may have changed by another amount.
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

/**
 * hab_free_extents_recover - look for a segment that has dropped memory
 * @set: the set
 * @from: first segment
 * @to: segment behind the last one
 *
 * If all of the first such segment is dropped or free it becomes free, and @lost falls by that.
 *
 * Return: the segment behind it, or @to.
 */
u32 hab_free_extents_recover(struct hab_free_extents *set, u32 from, u32 to);

/* Takes @size granules, at most all, from the beginning of extent @index. */
void hab_free_extents_take(struct hab_free_extents *set, u32 index, u64 size);

/* true if an extent shares a granule with [start, start + size). */
bool hab_free_extents_overlap(const struct hab_free_extents *set, u64 start, u64 size);

#endif /* HAB_CORE_FREE_EXTENTS_H */
