// SPDX-License-Identifier: GPL-2.0-only
/*
 * The table of stacks: how often each was seen, and how much that stands for.
 *
 * The hard case is to stay bounded for months without going blind: when the
 * table is full, the stacks not seen for longest are folded into entry 0,
 * "[other stacks]", and their places are used again. Sums stay exact, for each
 * running profile too: what the entry was at its mark is folded along. The same is
 * done when entries remember too much of their past.
 */
#include "daemon/samples/stacks.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/samples/sample_log.h"
#include "daemon/samples/stack_history.h"
#include "daemon/shared/util.h"

#define NONE	  UINT32_MAX
#define PASTS_MAX 4 /* times the entries there may be */

struct entry {
	struct stack_key key;
	struct stack_counts counts;
	uint64_t hash;
	uint64_t seen_ns;
	struct stack_history history;
	uint32_t next;	     /* in its bucket, or in the free list */
	uint32_t generation; /* counts the stacks that have had this place */
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
	struct stack_marks marks;
	size_t prune_at; /* nr_pasts at which it is worth to look for those not wanted */
	struct sample_log *log;
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
	table->log = sample_log_new();
	other = &table->entries[0];
	strcpy(other->key.comm, "[other stacks]");
	return table;
}

void stacks_free(struct stack_table *table)
{
	unsigned int i;

	if (!table)
		return;
	for (i = 0; i < table->count; i++) {
		history_end(&table->entries[i].history, &table->marks);
		free((void *)table->entries[i].key.frames);
	}
	while (table->marks.newest)
		marks_remove(&table->marks, table->marks.newest);
	sample_log_free(table->log);
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

/* Moves an entry's counts into entry 0, as if it had always been part of it. */
static void fold(struct stack_table *table, uint32_t number)
{
	struct entry *entry = &table->entries[number];
	uint32_t *link = &table->buckets[entry->hash % table->nr_buckets];
	uint32_t generation = entry->generation;
	struct stack_counts then;
	struct stack_mark *mark;

	while (*link != number)
		link = &table->entries[*link].next;
	*link = entry->next;
	counts_add(&table->entries[0].counts, &entry->counts);
	for (mark = table->marks.newest; mark; mark = mark->next) {
		then = history_at(&entry->history, &entry->counts, mark);
		counts_add(&mark->other, &then);
	}
	history_end(&entry->history, &table->marks);
	free((void *)entry->key.frames);
	memset(entry, 0, sizeof(*entry));
	entry->generation = generation + 1;
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

static bool is_live(const struct entry *entry)
{
	/* Those of a stack without frames are allocated, too. */
	return entry->key.frames;
}

/* Frees a sixteenth of the places, so that the search for them is rare. */
static void fold_oldest(struct stack_table *table)
{
	uint64_t *times = xcalloc(table->count, sizeof(*times)), limit;
	unsigned int i, live = 0, many = table->cap / 16 + 1;

	for (i = 1; i < table->count; i++)
		if (is_live(&table->entries[i]))
			times[live++] = table->entries[i].seen_ns;
	qsort(times, live, sizeof(*times), compare_times);
	if (many > live)
		many = live;
	limit = many ? times[many - 1] : 0;
	free(times);
	for (i = 1; i < table->count && many; i++) {
		if (is_live(&table->entries[i]) && table->entries[i].seen_ns <= limit) {
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

static uint32_t find(const struct stack_table *table, const struct stack_key *key, uint64_t hash)
{
	uint32_t number = table->buckets[hash % table->nr_buckets];
	const struct entry *entry;

	for (; number != NONE; number = entry->next) {
		entry = &table->entries[number];
		if (entry->hash == hash && key_equal(&entry->key, key))
			break;
	}
	return number;
}

static uint32_t insert(struct stack_table *table, const struct stack_key *key, uint64_t hash)
{
	uint32_t *bucket = &table->buckets[hash % table->nr_buckets], number = new_entry(table);
	struct entry *entry = &table->entries[number];
	uint64_t *frames;

	entry->key = *key;
	frames = xcalloc(key->nr_frames, sizeof(*frames));
	if (key->nr_frames)
		memcpy(frames, key->frames, key->nr_frames * sizeof(*frames));
	entry->key.frames = frames;
	entry->hash = hash;
	entry->next = *bucket;
	*bucket = number;
	history_begin(&entry->history, &table->marks);
	return number;
}

/* Before an entry remembers one more. */
static void limit_pasts(struct stack_table *table)
{
	unsigned int i;

	if (table->marks.nr_pasts < table->prune_at)
		return;
	for (i = 1; i < table->count; i++)
		history_prune(&table->entries[i].history, &table->marks);
	while (table->marks.nr_pasts >= PASTS_MAX * (size_t)table->cap)
		fold_oldest(table);
	table->prune_at = table->marks.nr_pasts * 2 + table->cap / 16;
	if (table->prune_at > PASTS_MAX * (size_t)table->cap)
		table->prune_at = PASTS_MAX * (size_t)table->cap;
}

void stacks_add(struct stack_table *table, const struct stack_key *key,
		const struct stack_counts *counts, const struct stack_event *event, uint64_t now_ns)
{
	uint64_t hash = key_hash(key);
	struct logged_sample sample = {
		.time_ns = event->time_ns,
		.weight = counts->weight,
		.estimate = counts->estimate,
		.object_bytes = event->object_bytes,
		.chunk_bytes = event->chunk_bytes,
		.tid = event->tid,
	};
	struct entry *entry;

	limit_pasts(table);
	sample.stack = find(table, key, hash);
	if (sample.stack == NONE)
		sample.stack = insert(table, key, hash);
	entry = &table->entries[sample.stack];
	sample.generation = entry->generation;
	history_keep(&entry->history, &entry->counts, &table->marks);
	entry->seen_ns = now_ns;
	counts_add(&entry->counts, counts);
	sample_log_add(table->log, &sample);
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
	struct stack_mark *mark = marks_add(&table->marks);

	mark->other = table->entries[0].counts;
	mark->logged = sample_log_end(table->log);
	return mark;
}

void stacks_unmark(struct stack_table *table, struct stack_mark *mark)
{
	if (mark)
		marks_remove(&table->marks, mark);
}

void stacks_visit_settled(struct stack_table *table, const struct stack_mark *mark,
			  stack_visit visit, void *context)
{
	struct stack_counts counts, then;
	const struct entry *entry;
	unsigned int i;

	for (i = 0; i < table->count; i++) {
		entry = &table->entries[i];
		counts = entry->counts;
		if (mark) {
			then = i ? history_at(&entry->history, &entry->counts, mark) : mark->other;
			counts_subtract(&counts, &then);
		}
		if (counts.samples)
			visit(context, i, &entry->key, &counts);
	}
}

void stacks_visit(struct stack_table *table, const struct stack_mark *mark, stack_visit visit,
		  void *context)
{
	stacks_visit_settled(table, mark, visit, context);
	if (table->more)
		table->more(table->more_context, visit, context);
}

void stacks_visit_events(struct stack_table *table, const struct stack_mark *mark,
			 stack_event_visit visit, void *context)
{
	uint64_t at = sample_log_first(table->log), end = sample_log_end(table->log);
	struct stack_counts counts = { .samples = 1 };
	const struct logged_sample *sample;
	struct stack_event event;

	if (mark && at < mark->logged)
		at = mark->logged;
	for (; at < end; at++) {
		sample = sample_log_at(table->log, at);
		if (table->entries[sample->stack].generation != sample->generation)
			continue;
		event.time_ns = sample->time_ns;
		event.object_bytes = sample->object_bytes;
		event.chunk_bytes = sample->chunk_bytes;
		event.tid = sample->tid;
		counts.weight = sample->weight;
		counts.estimate = sample->estimate;
		visit(context, sample->stack, &event, &counts);
	}
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
