// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The bounded set of free extents. It is short, so all operations walk it.
 */
#include "core/hierarchy/free_extents.h"

/* Segments have at most 2^31 granules: an arena has less than 2^37. */
void hab_free_extents_init(struct hab_free_extents *set, u64 arena)
{
	set->nr = 0;
	set->sum = 0;
	set->most = 0;
	set->lost = 0;
	memset(set->dropped, 0, sizeof(set->dropped));
	if (!arena)
		return;
	set->arena = arena;
	set->segment = hab_div(arena + HAB_SEGMENTS - 1, HAB_SEGMENTS);
}

/* Counts the granules of each segment; a user who returned memory twice may count them twice. */
static void drop(struct hab_free_extents *set, const struct hab_extent *extent)
{
	u64 start = extent->start, end = start + extent->size;
	u32 i;

	for (i = hab_div(start, set->segment); start < end; i++) {
		u64 dropped = set->dropped[i], size = min(end, (i + 1) * set->segment) - start;
		u64 n = min(size, set->segment - min(set->segment, dropped));

		set->dropped[i] += n;
		set->lost += n;
		start += size;
	}
}

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

		if (other->start + other->size == extent->start) {
			extent->start = other->start;
		} else if (extent->start + extent->size != other->start) {
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

static struct hab_extent add(struct hab_free_extents *set, struct hab_extent extent)
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
	drop(set, &dropped);
	return dropped;
}

/* Granules of [start, end) that are free. */
static u64 free_between(const struct hab_free_extents *set, u64 start, u64 end)
{
	u64 sum = 0;
	u32 i;

	for (i = 0; i < set->nr; i++) {
		u64 from = max(set->extents[i].start, start);
		u64 to = min(set->extents[i].start + set->extents[i].size, end);

		sum += to > from ? to - from : 0;
	}
	return sum;
}

/* Removes [start, end) from the set; no extent begins before it and ends behind it. */
static void cut(struct hab_free_extents *set, u64 start, u64 end)
{
	u32 i = 0;

	while (i < set->nr) {
		struct hab_extent *extent = &set->extents[i];
		u64 from = max(extent->start, start);
		u64 to = min(extent->start + extent->size, end);

		if (to <= from) {
			i++;
			continue;
		}
		if (extent->start == from)
			extent->start = to;
		extent->size -= to - from;
		set->sum -= to - from;
		if (extent->size)
			i++;
		else
			remove_extent(set, i);
	}
}

/* true if the set has room for an extent of @size, or a smaller one that is dropped for it. */
static bool has_room(const struct hab_free_extents *set, u64 size)
{
	return set->nr < HAB_MAX_FREE_EXTENTS || set->extents[smallest(set)].size < size;
}

/*
 * If all of the segment is dropped or free it becomes free as a whole; or dropped as a whole, if
 * the set has no room for it. A part that stays free would be handed out alone, and the dropped
 * ones could not be recovered then.
 */
static void make_whole(struct hab_free_extents *set, u32 i)
{
	u64 start = i * set->segment, end = min(start + set->segment, set->arena);
	struct hab_extent whole = { .start = start, .size = end - start };

	if (!set->dropped[i] || set->dropped[i] + free_between(set, start, end) != whole.size)
		return;
	set->lost -= set->dropped[i];
	set->dropped[i] = 0;
	cut(set, start, end);
	if (has_room(set, whole.size))
		add(set, whole);
	else
		drop(set, &whole);
}

u32 hab_free_extents_recover(struct hab_free_extents *set, u32 from, u32 to)
{
	while (from < to) {
		if (set->dropped[from++]) {
			make_whole(set, from - 1);
			break;
		}
	}
	return from;
}

struct hab_extent hab_free_extents_add(struct hab_free_extents *set, struct hab_extent extent)
{
	struct hab_extent dropped = add(set, extent);
	u32 first, last;

	if (!extent.size || !set->lost)
		return dropped;
	/* All of the segments between is in @extent. */
	first = hab_div(extent.start, set->segment);
	last = hab_div(extent.start + extent.size - 1, set->segment);
	make_whole(set, first);
	if (last != first)
		make_whole(set, last);
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
