// SPDX-License-Identifier: GPL-2.0-only
/*
 * The timeline of the last hour, in memory.
 *
 * The hard case is a user with many processes: they would take all the room, or hide the processes
 * of others. So a point has the largest processes of each user, and one sum of the user's others.
 */
#include "daemon/state/timeline.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/shared/hash.h"

#define STEP_NS 10000000000ull
#define POINTS	360u

struct sum {
	UT_hash_handle hh;
	struct timeline_entry entry;
};

struct timeline_sums {
	struct sum *by_key;
};

/* The key of a sum: the part of an entry before its bytes. */
#define KEY_SIZE offsetof(struct timeline_entry, bytes)

struct timeline_sums *timeline_sums_new(void)
{
	return xcalloc(1, sizeof(struct timeline_sums));
}

void timeline_sums_add(struct timeline_sums *sums, const struct stack_key *key, uint64_t bytes,
		       uint64_t in_use)
{
	struct timeline_entry entry = { .pid = key->pid, .uid = key->uid, .kind = key->kind };
	struct sum *sum;

	memcpy(entry.comm, key->comm, sizeof(entry.comm));
	HASH_FIND(hh, sums->by_key, &entry, KEY_SIZE, sum);
	if (!sum) {
		sum = xcalloc(1, sizeof(*sum));
		sum->entry = entry;
		HASH_ADD_KEYPTR(hh, sums->by_key, &sum->entry, KEY_SIZE, sum);
	}
	sum->entry.bytes = hab_add_saturated(sum->entry.bytes, bytes);
	sum->entry.in_use = hab_add_saturated(sum->entry.in_use, in_use);
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

/* By kind and user, the largest first. */
static int compare(const void *one, const void *two)
{
	const struct timeline_entry *first = one, *second = two;

	if (first->kind != second->kind)
		return first->kind < second->kind ? -1 : 1;
	if (first->uid != second->uid)
		return first->uid < second->uid ? -1 : 1;
	return compare_weights(first, second);
}

static void add(struct timeline_entry *sum, const struct timeline_entry *more)
{
	sum->bytes = hab_add_saturated(sum->bytes, more->bytes);
	sum->in_use = hab_add_saturated(sum->in_use, more->in_use);
}

/* The sum of further processes of a user; its bytes come with add(). */
static struct timeline_entry others_of(const struct timeline_entry *entry, uint32_t uid)
{
	return (struct timeline_entry){ .uid = uid, .kind = entry->kind };
}

/* Sums up each user's processes that are beyond the limit. Returns the new number. */
static unsigned int limit_users(struct timeline_entry *entries, unsigned int count)
{
	unsigned int i, kept = 0, of_user = 0;

	for (i = 0; i < count; i++) {
		const struct timeline_entry entry = entries[i];

		if (!kept || entries[kept - 1].kind != entry.kind ||
		    entries[kept - 1].uid != entry.uid)
			of_user = 0;
		if (of_user++ < TIMELINE_PROCESSES) {
			entries[kept++] = entry;
			continue;
		}
		if (of_user == TIMELINE_PROCESSES + 1)
			entries[kept++] = others_of(&entry, entry.uid);
		add(&entries[kept - 1], &entry);
	}
	return kept;
}

static int compare_all(const void *one, const void *two)
{
	return compare_weights(one, two);
}

/* Sums up the smallest of all users. Returns the new number. */
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

void timeline_sums_end(struct timeline_sums *sums, struct timeline_point *point)
{
	unsigned int count = HASH_COUNT(sums->by_key), i = 0;
	struct timeline_entry *entries = xcalloc(count, sizeof(*entries));
	struct sum *sum;

	for (sum = sums->by_key; sum; sum = sum->hh.next)
		if (weight(&sum->entry))
			entries[i++] = sum->entry;
	count = i;
	if (count)
		qsort(entries, count, sizeof(*entries), compare);
	point->count = limit_all(entries, limit_users(entries, count));
	point->entries = xrealloc(entries, point->count, sizeof(*entries));
	HASH_FREE(sums->by_key);
	free(sums);
}

struct timeline {
	struct timeline_point points[POINTS]; /* a ring */
	unsigned int count;		      /* of points ever */
	struct stack_mark *mark;	      /* the end of the last point */
	uint64_t mark_ns, mark_monotonic_ns;
};

static void begin_point(struct timeline *timeline, struct stack_table *stacks)
{
	timeline->mark = stacks_mark(stacks);
	timeline->mark_ns = clock_realtime_ns();
	timeline->mark_monotonic_ns = clock_monotonic_ns();
}

struct timeline *timeline_new(struct stack_table *stacks)
{
	struct timeline *timeline = xcalloc(1, sizeof(*timeline));

	begin_point(timeline, stacks);
	return timeline;
}

void timeline_free(struct timeline *timeline, struct stack_table *stacks)
{
	unsigned int i;

	stacks_unmark(stacks, timeline->mark);
	for (i = 0; i < POINTS; i++)
		free(timeline->points[i].entries);
	free(timeline);
}

static void add_stack(void *sums, uint32_t number, const struct stack_key *key,
		      const struct stack_counts *counts)
{
	timeline_sums_add(sums, key, counts->estimate, 0);
}

static void add_stack_in_use(void *sums, uint32_t number, const struct stack_key *key,
			     const struct in_use *in_use)
{
	timeline_sums_add(sums, key, 0, in_use->bytes);
}

void timeline_update(struct timeline *timeline, struct stack_table *stacks)
{
	uint64_t now_ns = clock_monotonic_ns();
	struct timeline_sums *sums;
	struct timeline_point *point;

	/* Points begin at full tens of seconds, also after the clock was set. */
	if (now_ns - timeline->mark_monotonic_ns < STEP_NS &&
	    (now_ns - timeline->mark_monotonic_ns < STEP_NS / 10 ||
	     clock_realtime_ns() / STEP_NS == timeline->mark_ns / STEP_NS))
		return;
	point = &timeline->points[timeline->count++ % POINTS];
	free(point->entries);
	point->start_ns = timeline->mark_ns;
	point->duration_ns = now_ns - timeline->mark_monotonic_ns;
	sums = timeline_sums_new();
	stacks_visit_settled(stacks, timeline->mark, add_stack, sums);
	stacks_visit_in_use(stacks, add_stack_in_use, sums);
	timeline_sums_end(sums, point);
	stacks_unmark(stacks, timeline->mark);
	begin_point(timeline, stacks);
}

struct timeline_point *timeline_copy(const struct timeline *timeline, unsigned int *count)
{
	const struct timeline_point *from;
	struct timeline_point *points;
	unsigned int i;

	*count = min(timeline->count, POINTS);
	points = xcalloc(*count, sizeof(*points));
	for (i = 0; i < *count; i++) {
		from = &timeline->points[(timeline->count - *count + i) % POINTS];
		points[i] = *from;
		points[i].entries = xcalloc(from->count, sizeof(*from->entries));
		if (from->count)
			memcpy(points[i].entries, from->entries,
			       from->count * sizeof(*from->entries));
	}
	return points;
}

void timeline_points_free(struct timeline_point *points, unsigned int count)
{
	while (count)
		free(points[--count].entries);
	free(points);
}
