// SPDX-License-Identifier: GPL-2.0-only
/*
 * The timeline of the last hour, in memory.
 *
 * No user takes all the room or hides others: a point has the largest processes of each user, and
 * one sum of the user's others.
 *
 * habd's lock is held while the stacks are copied. They are summed up and sorted without it.
 */
#include "daemon/habd/state/timeline.h"

#include <stdlib.h>
#include <string.h>

#include "core/arithmetic.h"
#include "wire/owner.h"
#include "daemon/shared/util.h"

#define POINTS 360u

static void add(struct timeline_entry *sum, const struct timeline_entry *more)
{
	sum->bytes = hab_add_saturated(sum->bytes, more->bytes);
	sum->in_use = hab_add_saturated(sum->in_use, more->in_use);
}

void timeline_copy_add(struct timeline_copy *copy, const struct stack_key *key, uint64_t bytes,
		       uint64_t in_use)
{
	struct timeline_entry *entry;

	if (!bytes && !in_use)
		return;
	copy->entries = xgrow(copy->entries, copy->count, &copy->room, sizeof(*copy->entries));
	entry = &copy->entries[copy->count++];
	*entry = (struct timeline_entry){
		.pid = key->pid,
		/* "[other stacks]" are of many processes, and without an owner of many users. */
		.uid = key->pid || key->owner ? key->uid : TIMELINE_MANY,
		.owner = key->pid || key->owner ? key->owner : TIMELINE_MANY,
		.kind = key->kind,
		.bytes = bytes,
		.in_use = in_use,
	};
	memcpy(entry->comm, key->comm, sizeof(entry->comm));
}

static uint64_t weight(const struct timeline_entry *entry)
{
	return max(entry->bytes, entry->in_use);
}

static int compare_weights(const struct timeline_entry *first, const struct timeline_entry *second)
{
	if (weight(first) != weight(second))
		return weight(first) < weight(second) ? 1 : -1;
	return first->pid < second->pid ? -1 : first->pid > second->pid;
}

/* Sorts by kind and process. */
static int compare_pids(const void *one, const void *two)
{
	const struct timeline_entry *first = one, *second = two;

	if (first->kind != second->kind)
		return first->kind < second->kind ? -1 : 1;
	if (first->pid != second->pid)
		return first->pid < second->pid ? -1 : 1;
	if (first->owner != second->owner)
		return first->owner < second->owner ? -1 : 1;
	return first->uid < second->uid ? -1 : first->uid > second->uid;
}

/* Sorts entries, and sums up those in a row that are the same. Returns the new number. */
static unsigned int sum_up_same(struct timeline_entry *entries, unsigned int count,
				int (*order)(const void *, const void *),
				int (*is_other)(const void *, const void *))
{
	unsigned int i, kept = 0;

	if (count)
		qsort(entries, count, sizeof(*entries), order);
	for (i = 0; i < count; i++)
		if (kept && !is_other(&entries[kept - 1], &entries[i]))
			add(&entries[kept - 1], &entries[i]);
		else
			entries[kept++] = entries[i];
	return kept;
}

/* Sorts by kind and owner, the largest first. */
static int compare(const void *one, const void *two)
{
	const struct timeline_entry *first = one, *second = two;

	if (first->kind != second->kind)
		return first->kind < second->kind ? -1 : 1;
	if (first->owner != second->owner)
		return first->owner < second->owner ? -1 : 1;
	return compare_weights(first, second);
}

/* Sorts by rank, the largest first. */
static int compare_ranks(const void *one, const void *two)
{
	const struct timeline_entry *first = one, *second = two;

	if (first->rank != second->rank)
		return first->rank < second->rank ? -1 : 1;
	return compare_weights(first, second);
}

/* Ranks the processes of each owner. Returns how many owners there are, in each kind. */
static unsigned int rank_processes(struct timeline_entry *entries, unsigned int count)
{
	unsigned int i, owners = 0;
	bool is_next;

	if (count)
		qsort(entries, count, sizeof(*entries), compare);
	for (i = 0; i < count; i++) {
		is_next = i && entries[i].kind == entries[i - 1].kind &&
			  entries[i].owner == entries[i - 1].owner;
		entries[i].rank = is_next ? entries[i - 1].rank + 1 : 0;
		owners += !is_next;
	}
	return owners;
}

/*
 * The largest of each owner stay, then the second of each, and so on as long as there is room. The
 * others become sums. Returns the new number.
 */
static unsigned int limit(struct timeline_entry *entries, unsigned int count)
{
	unsigned int room = TIMELINE_ENTRIES - HAB_KINDS, kept = 0, i;
	unsigned int owners = rank_processes(entries, count);
	bool of_owners = owners <= room / 2;
	uint64_t owner;

	if (of_owners)
		room -= owners;
	if (count)
		qsort(entries, count, sizeof(*entries), compare_ranks);
	while (kept < min(count, room) && entries[kept].rank < TIMELINE_PROCESSES)
		kept++;
	for (i = kept; i < count; i++) {
		owner = of_owners ? entries[i].owner : TIMELINE_MANY;
		entries[i] = (struct timeline_entry){ .uid = hab_owner_uid(owner, 0),
						      .owner = owner,
						      .kind = entries[i].kind,
						      .bytes = entries[i].bytes,
						      .in_use = entries[i].in_use };
	}
	return kept + sum_up_same(entries + kept, count - kept, compare_pids, compare_pids);
}

struct timeline_point timeline_sum_up(struct timeline_copy *copy)
{
	struct timeline_point point = { .start_ns = copy->start_ns,
					.duration_ns = copy->duration_ns };
	struct timeline_entry *entries = copy->entries;
	unsigned int count;

	count = sum_up_same(entries, copy->count, compare_pids, compare_pids);
	point.count = limit(entries, count);
	point.entries = xrealloc(entries, point.count, sizeof(*entries));
	return point;
}

/* A point of the ring. The ring and each reader use it; the last of them frees it. */
struct shared_point {
	struct timeline_point point; /* first; it does not change */
	unsigned int users;	     /* atomic */
};

struct timeline {
	struct shared_point *points[POINTS]; /* a ring */
	unsigned int count;		     /* of points ever */
	struct stack_mark *mark;	     /* the end of the last point */
	struct timeline_time mark_time;
};

struct timeline_time timeline_now(void)
{
	return (struct timeline_time){ clock_realtime_ns(), clock_monotonic_ns() };
}

static void begin_point(struct timeline *timeline, struct stack_table *stacks,
			struct timeline_time now)
{
	timeline->mark = stacks_mark(stacks, 0, false);
	timeline->mark_time = now;
}

struct timeline *timeline_new(struct stack_table *stacks, struct timeline_time now)
{
	struct timeline *timeline = xcalloc(1, sizeof(*timeline));

	begin_point(timeline, stacks, now);
	return timeline;
}

static void put_point(struct shared_point *shared)
{
	/* Release and acquire: the other users have read it before it is freed. */
	if (!shared || __atomic_sub_fetch(&shared->users, 1, __ATOMIC_ACQ_REL))
		return;
	free(shared->point.entries);
	free(shared);
}

void timeline_free(struct timeline *timeline, struct stack_table *stacks)
{
	unsigned int i;

	stacks_unmark(stacks, timeline->mark);
	for (i = 0; i < POINTS; i++)
		put_point(timeline->points[i]);
	free(timeline);
}

static void copy_stack(void *copy, uint32_t number, const struct stack_key *key,
		       const struct stack_counts *counts, const struct in_use *in_use)
{
	timeline_copy_add(copy, key, counts->estimate, in_use ? in_use->bytes : 0);
}

bool timeline_copy(struct timeline *timeline, struct stack_table *stacks, struct timeline_time now,
		   struct timeline_copy *copy)
{
	uint64_t passed_ns = now.monotonic_ns - timeline->mark_time.monotonic_ns;

	/* Points begin at full tens of seconds, also after the clock was set. */
	if (passed_ns < TIMELINE_STEP_NS &&
	    (passed_ns < TIMELINE_STEP_NS / 10 ||
	     now.realtime_ns / TIMELINE_STEP_NS ==
		     timeline->mark_time.realtime_ns / TIMELINE_STEP_NS))
		return false;
	*copy = (struct timeline_copy){ .start_ns = timeline->mark_time.realtime_ns,
					.duration_ns = passed_ns };
	stacks_visit_settled(stacks, timeline->mark, copy_stack, copy);
	stacks_unmark(stacks, timeline->mark);
	begin_point(timeline, stacks, now);
	return true;
}

void timeline_add(struct timeline *timeline, struct timeline_point point)
{
	struct shared_point **place = &timeline->points[timeline->count++ % POINTS];

	put_point(*place);
	*place = xcalloc(1, sizeof(**place));
	**place = (struct shared_point){ .point = point, .users = 1 };
}

const struct timeline_point **timeline_take(const struct timeline *timeline, unsigned int *count)
{
	const struct timeline_point **points;
	struct shared_point *shared;
	unsigned int i;

	*count = min(timeline->count, POINTS);
	points = xcalloc(*count, sizeof(struct timeline_point *));
	for (i = 0; i < *count; i++) {
		shared = timeline->points[(timeline->count - *count + i) % POINTS];
		__atomic_add_fetch(&shared->users, 1, __ATOMIC_RELAXED);
		points[i] = &shared->point;
	}
	return points;
}

void timeline_put(const struct timeline_point **points, unsigned int count)
{
	while (count)
		put_point((struct shared_point *)points[--count]);
	free(points);
}

void timeline_points_free(struct timeline_point *points, unsigned int count)
{
	while (count)
		free(points[--count].entries);
	free(points);
}
