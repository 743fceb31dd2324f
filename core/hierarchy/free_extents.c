// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The bounded set of rests. Walks it: it is short.
 */
#include "core/hierarchy/free_extents.h"

static void remove_rest(struct hab_free_extents *rests, u32 index)
{
	rests->rests[index] = rests->rests[--rests->nr];
}

/* Takes the neighbours of @rest out of the set and makes them part of it. */
static void join_neighbours(struct hab_free_extents *rests, struct hab_extent *rest)
{
	u32 i = 0;

	while (i < rests->nr) {
		struct hab_extent *other = &rests->rests[i];

		if (other->start + other->size == rest->start)
			rest->start = other->start;
		else if (rest->start + rest->size != other->start) {
			i++;
			continue;
		}
		rest->size += other->size;
		remove_rest(rests, i);
	}
}

static u32 smallest(const struct hab_free_extents *rests)
{
	u32 i, best = 0;

	for (i = 1; i < rests->nr; i++) {
		if (rests->rests[i].size < rests->rests[best].size)
			best = i;
	}
	return best;
}

struct hab_extent hab_free_extents_add(struct hab_free_extents *rests, struct hab_extent rest)
{
	struct hab_extent dropped = { 0 };
	u32 i;

	if (!rest.size)
		return dropped;
	rests->sum += rest.size;
	join_neighbours(rests, &rest);
	rests->most = max(rests->most, rest.size);
	if (rests->nr < HAB_MAX_FREE_EXTENTS) {
		rests->rests[rests->nr++] = rest;
		return dropped;
	}
	i = smallest(rests);
	dropped = rest;
	if (rests->rests[i].size < rest.size) {
		dropped = rests->rests[i];
		rests->rests[i] = rest;
	}
	rests->sum -= dropped.size;
	return dropped;
}

int hab_free_extents_largest(struct hab_free_extents *rests, u64 least)
{
	u32 i;
	int best = -1;

	if (rests->most < least)
		return -1;
	rests->most = 0;
	for (i = 0; i < rests->nr; i++) {
		if (rests->rests[i].size > rests->most) {
			rests->most = rests->rests[i].size;
			best = i;
		}
	}
	return rests->most < least ? -1 : best;
}

void hab_free_extents_take(struct hab_free_extents *rests, u32 index, u64 size)
{
	struct hab_extent *rest = &rests->rests[index];

	rests->sum -= size;
	rest->start += size;
	rest->size -= size;
	if (!rest->size)
		remove_rest(rests, index);
}

bool hab_free_extents_overlap(const struct hab_free_extents *rests, u64 start, u64 size)
{
	u32 i;

	for (i = 0; i < rests->nr; i++) {
		const struct hab_extent *rest = &rests->rests[i];

		if (start < rest->start + rest->size && rest->start < start + size)
			return true;
	}
	return false;
}
