// SPDX-License-Identifier: GPL-2.0-only
/*
 * The table of stacks: how often each was seen, and how much that stands for.
 *
 * The hard case is to stay bounded for months without going blind: when the
 * table is full, the stacks not seen for longest are folded into entry 0,
 * "[other stacks]", and their places are used again. Sums stay exact, for each
 * running profile too: its mark is folded along with the entry.
 */
#include "stacks.h"

#include <stdlib.h>
#include <string.h>

#include "util.h"

#define NONE UINT32_MAX

struct entry {
	struct stack_key key;
	struct stack_counts counts;
	uint64_t hash;
	uint64_t seen_ns;
	uint32_t next; /* in its bucket, or in the free list */
};

struct stack_mark {
	struct stack_mark *next;
	unsigned int count;
	struct stack_counts counts[];
};

struct stack_table {
	unsigned int cap;
	unsigned int count; /* entries ever used, the first included */
	unsigned int live;
	unsigned int nr_buckets;
	uint32_t free;
	uint64_t folded;
	struct entry *entries;
	uint32_t *buckets;
	struct stack_mark *marks;
	stack_more more;
	void *more_context;
};

struct stack_table *stacks_new(unsigned int cap)
{
	struct stack_table *table = xcalloc(1, sizeof(*table));
	struct entry *other;

	table->cap = cap;
	table->nr_buckets = cap * 2;
	table->entries = xcalloc(cap + 1, sizeof(*table->entries));
	table->buckets = xcalloc(table->nr_buckets, sizeof(*table->buckets));
	memset(table->buckets, 0xff, table->nr_buckets * sizeof(*table->buckets));
	table->free = NONE;
	table->count = 1;
	other = &table->entries[0];
	strcpy(other->key.comm, "[other stacks]");
	return table;
}

void stacks_free(struct stack_table *table)
{
	struct stack_mark *mark;
	unsigned int i;

	if (!table)
		return;
	while ((mark = table->marks)) {
		table->marks = mark->next;
		free(mark);
	}
	for (i = 0; i < table->count; i++)
		free((void *)table->entries[i].key.frames);
	free(table->entries);
	free(table->buckets);
	free(table);
}

static uint64_t key_hash(const struct stack_key *key)
{
	uint64_t hash = hash_bytes(key->comm, sizeof(key->comm), key->pid);

	hash = hash_bytes(key->heap, sizeof(key->heap), hash);
	hash = hash_bytes(key->tag, sizeof(key->tag), hash + key->kind);
	hash = hash_bytes(&key->cgroup_id, sizeof(key->cgroup_id), hash);
	return hash_bytes(key->frames, key->nr_frames * sizeof(*key->frames), hash);
}

static bool key_equal(const struct stack_key *one, const struct stack_key *two)
{
	return one->pid == two->pid && one->kind == two->kind && one->cgroup_id == two->cgroup_id &&
	       one->nr_frames == two->nr_frames &&
	       !memcmp(one->comm, two->comm, sizeof(one->comm)) &&
	       !memcmp(one->heap, two->heap, sizeof(one->heap)) &&
	       !memcmp(one->tag, two->tag, sizeof(one->tag)) &&
	       (!one->nr_frames ||
		!memcmp(one->frames, two->frames, one->nr_frames * sizeof(*one->frames)));
}

static void counts_add(struct stack_counts *sum, const struct stack_counts *more)
{
	sum->samples += more->samples;
	sum->bytes += more->bytes;
	sum->weight += more->weight;
	sum->estimate += more->estimate;
	sum->events += more->events;
	sum->variance += more->variance;
}

static void counts_subtract(struct stack_counts *rest, const struct stack_counts *less)
{
	rest->samples -= less->samples;
	rest->bytes -= less->bytes;
	rest->weight -= less->weight;
	rest->estimate -= less->estimate;
	rest->events -= less->events;
	rest->variance -= less->variance;
}

/* Moves an entry's counts into entry 0, as if it had always been part of it. */
static void fold(struct stack_table *table, uint32_t number)
{
	struct entry *entry = &table->entries[number];
	uint32_t *link = &table->buckets[entry->hash % table->nr_buckets];
	struct stack_mark *mark;

	while (*link != number)
		link = &table->entries[*link].next;
	*link = entry->next;
	counts_add(&table->entries[0].counts, &entry->counts);
	for (mark = table->marks; mark; mark = mark->next) {
		if (number >= mark->count)
			continue;
		counts_add(&mark->counts[0], &mark->counts[number]);
		memset(&mark->counts[number], 0, sizeof(mark->counts[number]));
	}
	free((void *)entry->key.frames);
	memset(entry, 0, sizeof(*entry));
	entry->next = table->free;
	table->free = number;
	table->live--;
	table->folded++;
}

static int compare_times(const void *one, const void *two)
{
	uint64_t first = *(const uint64_t *)one, second = *(const uint64_t *)two;

	return first < second ? -1 : first > second;
}

/* Frees a sixteenth of the places, so that the search for them is rare. */
static void fold_oldest(struct stack_table *table)
{
	uint64_t *times = xcalloc(table->count, sizeof(*times)), limit;
	unsigned int i, many = table->cap / 16 + 1;

	for (i = 1; i < table->count; i++)
		times[i - 1] = table->entries[i].seen_ns;
	qsort(times, table->count - 1, sizeof(*times), compare_times);
	limit = times[many - 1];
	free(times);
	for (i = 1; i < table->count && many; i++) {
		if (table->entries[i].seen_ns <= limit) {
			fold(table, i);
			many--;
		}
	}
}

static uint32_t new_entry(struct stack_table *table)
{
	uint32_t number;

	if (table->free == NONE && table->count > table->cap)
		fold_oldest(table);
	table->live++;
	if (table->free == NONE)
		return table->count++;
	number = table->free;
	table->free = table->entries[number].next;
	return number;
}

void stacks_add(struct stack_table *table, const struct stack_key *key,
		const struct stack_counts *counts, uint64_t now_ns)
{
	uint64_t hash = key_hash(key);
	uint32_t *bucket = &table->buckets[hash % table->nr_buckets], number;
	struct entry *entry;
	uint64_t *frames;

	for (number = *bucket; number != NONE; number = table->entries[number].next) {
		entry = &table->entries[number];
		if (entry->hash == hash && key_equal(&entry->key, key))
			goto found;
	}
	number = new_entry(table);
	entry = &table->entries[number];
	entry->key = *key;
	frames = xcalloc(key->nr_frames, sizeof(*frames));
	if (key->nr_frames)
		memcpy(frames, key->frames, key->nr_frames * sizeof(*frames));
	entry->key.frames = frames;
	entry->hash = hash;
	entry->next = *bucket;
	*bucket = number;
found:
	entry->seen_ns = now_ns;
	counts_add(&entry->counts, counts);
}

unsigned int stacks_count(const struct stack_table *table)
{
	return table->live;
}

uint64_t stacks_folded(const struct stack_table *table)
{
	return table->folded;
}

struct stack_mark *stacks_mark(struct stack_table *table)
{
	struct stack_mark *mark;
	unsigned int i;

	mark = xcalloc(1, sizeof(*mark) + table->count * sizeof(mark->counts[0]));
	mark->count = table->count;
	for (i = 0; i < table->count; i++)
		mark->counts[i] = table->entries[i].counts;
	mark->next = table->marks;
	table->marks = mark;
	return mark;
}

void stacks_unmark(struct stack_table *table, struct stack_mark *mark)
{
	struct stack_mark **link = &table->marks;

	if (!mark)
		return;
	while (*link != mark)
		link = &(*link)->next;
	*link = mark->next;
	free(mark);
}

void stacks_visit(struct stack_table *table, const struct stack_mark *mark, stack_visit visit,
		  void *context)
{
	struct stack_counts counts;
	unsigned int i;

	for (i = 0; i < table->count; i++) {
		counts = table->entries[i].counts;
		if (mark && i < mark->count)
			counts_subtract(&counts, &mark->counts[i]);
		if (counts.samples)
			visit(context, &table->entries[i].key, &counts);
	}
	if (table->more)
		table->more(table->more_context, visit, context);
}

void stacks_also(struct stack_table *table, stack_more more, void *context)
{
	table->more = more;
	table->more_context = context;
}

double stacks_variance(uint64_t bytes, uint64_t probability)
{
	double p = (double)probability / 4294967296.0;

	return probability ? (double)bytes * (double)bytes * (1 - p) / (p * p) : 0;
}

uint64_t stacks_estimate(uint64_t bytes, uint64_t probability)
{
	unsigned __int128 scaled = (unsigned __int128)bytes << 32;

	if (!probability)
		return 0;
	scaled = (scaled + probability / 2) / probability;
	return scaled > UINT64_MAX ? UINT64_MAX : (uint64_t)scaled;
}
