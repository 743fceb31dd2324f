// SPDX-License-Identifier: GPL-2.0-only
/*
 * The timeline of the last hour, in memory.
 *
 * No user takes all the room or hides others: a point has the largest processes of each user, and
 * one sum of the user's others. Beyond TIMELINE_ENTRIES the smallest are summed up.
 *
 * habd's lock is held while the stacks are copied. They are summed up and sorted without it.
 */
#include "daemon/state/timeline.h"

#include <stdlib.h>
#include <string.h>

#include "core/arithmetic.h"
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
		/* "[other stacks]" are of many users. */
		.uid = key->pid ? key->uid : TIMELINE_MANY,
		.kind = key->kind,
		.bytes = bytes,
		.in_use = in_use,
	};
	entry->owner = entry->uid;
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

/* By kind and process. */
static int compare_pids(const void *one, const void *two)
{
	const struct timeline_entry *first = one, *second = two;

	if (first->kind != second->kind)
		return first->kind < second->kind ? -1 : 1;
	if (first->pid != second->pid)
		return first->pid < second->pid ? -1 : 1;
	return first->uid < second->uid ? -1 : first->uid > second->uid;
}

/* By kind, process and comm. */
static int compare_threads(const void *one, const void *two)
{
	const struct timeline_entry *first = one, *second = two;
	int order = compare_pids(one, two);

	return order ? order : memcmp(first->comm, second->comm, sizeof(first->comm));
}

/* By kind and process, the largest comm first. */
static int compare_processes(const void *one, const void *two)
{
	int order = compare_pids(one, two);

	return order ? order : compare_weights(one, two);
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

/* By kind and owner, the largest first. */
static int compare(const void *one, const void *two)
{
	const struct timeline_entry *first = one, *second = two;

	if (first->kind != second->kind)
		return first->kind < second->kind ? -1 : 1;
	if (first->owner != second->owner)
		return first->owner < second->owner ? -1 : 1;
	return compare_weights(first, second);
}

/* The sum of further processes of an owner; its bytes come with add(). */
static struct timeline_entry others_of(const struct timeline_entry *entry, uint32_t owner)
{
	return (struct timeline_entry){ .uid = owner, .kind = entry->kind, .owner = owner };
}

/* How many of the sorted entries are of the first one's owner. */
static unsigned int count_of_owner(const struct timeline_entry *entries, unsigned int count)
{
	unsigned int i = 1;

	while (i < count && entries[i].kind == entries->kind && entries[i].owner == entries->owner)
		i++;
	return i;
}

/* How many processes of so many have an entry of their own: a sum of one would save nothing. */
static unsigned int apart(unsigned int count, unsigned int limit)
{
	return count <= max(limit, 1) ? count : limit;
}

static unsigned int count_limited(const struct timeline_entry *entries, unsigned int count,
				  unsigned int limit)
{
	unsigned int i, of_owner, sum = 0;

	for (i = 0; i < count; i += of_owner) {
		of_owner = count_of_owner(entries + i, count - i);
		sum += apart(of_owner, limit) + (apart(of_owner, limit) < of_owner);
	}
	return sum;
}

/* Sums up each owner's processes that are beyond the limit. Returns the new number. */
static unsigned int limit_owners(struct timeline_entry *entries, unsigned int count,
				 unsigned int limit)
{
	unsigned int i, j, of_owner, kept = 0;
	struct timeline_entry sum;

	for (i = 0; i < count; i += of_owner) {
		of_owner = count_of_owner(entries + i, count - i);
		for (j = 0; j < apart(of_owner, limit); j++)
			entries[kept++] = entries[i + j];
		if (j == of_owner)
			continue;
		sum = others_of(&entries[i], entries[i].owner);
		for (; j < of_owner; j++)
			add(&sum, &entries[i + j]);
		entries[kept++] = sum;
	}
	return kept;
}

static int compare_all(const void *one, const void *two)
{
	return compare_weights(one, two);
}

/* Sums up the smallest of all owners. Returns the new number. */
static unsigned int limit_all(struct timeline_entry *entries, unsigned int count)
{
	struct timeline_entry others[HAB_EVENT_KINDS] = { 0 };
	unsigned int i, kept = TIMELINE_ENTRIES - HAB_EVENT_KINDS;
	struct timeline_entry *sum;

	if (count <= TIMELINE_ENTRIES)
		return count;
	qsort(entries, count, sizeof(*entries), compare_all);
	for (i = kept; i < count; i++) {
		sum = &others[entries[i].kind];
		if (!weight(sum))
			*sum = others_of(&entries[i], TIMELINE_MANY);
		add(sum, &entries[i]);
	}
	for (i = 0; i < HAB_EVENT_KINDS; i++)
		if (weight(&others[i]))
			entries[kept++] = others[i];
	return kept;
}

struct timeline_point timeline_sum_up(struct timeline_copy *copy)
{
	struct timeline_point point = { .start_ns = copy->start_ns,
					.duration_ns = copy->duration_ns };
	struct timeline_entry *entries = copy->entries;
	unsigned int count, limit = TIMELINE_PROCESSES;

	/* Threads may have comms of their own: the one with the most bytes names the process. */
	count = sum_up_same(entries, copy->count, compare_threads, compare_threads);
	count = sum_up_same(entries, count, compare_processes, compare_pids);
	if (count)
		qsort(entries, count, sizeof(*entries), compare);
	while (limit && count_limited(entries, count, limit) > TIMELINE_ENTRIES)
		limit /= 2;
	point.count = limit_all(entries, limit_owners(entries, count, limit));
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
	timeline->mark = stacks_mark(stacks);
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
