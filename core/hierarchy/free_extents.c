// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The bounded set of free extents. It is short, so all operations walk it.
 */
#include "core/hierarchy/free_extents.h"

static void remove_extent(struct hab_free_extents *set, u32 index)
{
	set->extents[index] = set->extents[--set->nr];
}

/* Removes the extents next to @extent from the set and makes them part of it. */
static void join_adjacent(struct hab_free_extents *set, struct hab_extent *extent)
{
	u32 i = 0;

	while (i < set->nr) {
		struct hab_extent *other = &set->extents[i];

		if (other->start + other->size == extent->start)
			extent->start = other->start;
		else if (extent->start + extent->size != other->start) {
			i++;
			continue;
		}
		extent->size += other->size;
		remove_extent(set, i);
	}
}

static u32 smallest(const struct hab_free_extents *set)
{
	u32 i, best = 0;

	for (i = 1; i < set->nr; i++) {
		if (set->extents[i].size < set->extents[best].size)
			best = i;
	}
	return best;
}

struct hab_extent hab_free_extents_add(struct hab_free_extents *set, struct hab_extent extent)
{
	struct hab_extent dropped = { 0 };
	u32 i;

	if (!extent.size)
		return dropped;
	set->sum += extent.size;
	join_adjacent(set, &extent);
	set->most = max(set->most, extent.size);
	if (set->nr < HAB_MAX_FREE_EXTENTS) {
		set->extents[set->nr++] = extent;
		return dropped;
	}
	i = smallest(set);
	dropped = extent;
	if (set->extents[i].size < extent.size) {
		dropped = set->extents[i];
		set->extents[i] = extent;
	}
	set->sum -= dropped.size;
	return dropped;
}

int hab_free_extents_largest(struct hab_free_extents *set, u64 least)
{
	u32 i;
	int best = -1;

	if (set->most < least)
		return -1;
	set->most = 0;
	for (i = 0; i < set->nr; i++) {
		if (set->extents[i].size > set->most) {
			set->most = set->extents[i].size;
			best = i;
		}
	}
	return set->most < least ? -1 : best;
}

void hab_free_extents_take(struct hab_free_extents *set, u32 index, u64 size)
{
	struct hab_extent *extent = &set->extents[index];

	set->sum -= size;
	extent->start += size;
	extent->size -= size;
	if (!extent->size)
		remove_extent(set, index);
}

bool hab_free_extents_overlap(const struct hab_free_extents *set, u64 start, u64 size)
{
	u32 i;

	for (i = 0; i < set->nr; i++) {
		const struct hab_extent *extent = &set->extents[i];

		if (start < extent->start + extent->size && extent->start < start + size)
			return true;
	}
	return false;
}
