// SPDX-License-Identifier: GPL-2.0-only
/*
 * The stack table.
 *
 * It stays bounded for months: when it is full, the stack that was not seen for longest is folded
 * into "[other stacks]" of its kind of event, and its entry is used again. Sums stay exact, for
 * each mark, too: what the entry was at a mark is folded in the mark as well.
 *
 * The log is a ring of the latest samples. It is always kept, because the format of a
 * recording, and so whether it needs times, is chosen at its end.
 * Samples that have left the log are still in the sums.
 */
#include "daemon/collect/stacks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/collect/in_use.h"
#include "daemon/shared/hash.h"
#include "daemon/shared/limits.h"
#include "daemon/collect/process_maps.h"

#define NONE UINT32_MAX
#define GROWTH_PART 4 /* a quarter of the table, at most, is stacks of growth */

struct stack_mark {
	struct stack_mark *next; /* an older one */
	uint64_t since_ns;
	uint64_t logged; /* samples in the log, ever, at this time */
	unsigned int count;
	bool of_viewer;
	/*
	 * The entries' counts, with those of samples before since_ns that were pending; what was
	 * folded since is in those of "[other stacks]".
	 */
	struct stack_counts *counts;
};

struct entry_use {
	struct in_use kept; /* of processes that have ended */
	struct in_use now;  /* with that; only while it is counted */
};

struct entry {
	struct stack_key *key; /* NULL: free */
	struct stack_counts counts;
	struct entry_use *use; /* NULL: nothing was ever in use */
	uint32_t generation;   /* number of stacks that have used this entry before */
	uint32_t next_free;
	UT_hash_handle hh;
};

/* An entry whose stack has an address in no mapping. */
struct unknown {
	uint32_t entry;
	uint32_t generation;
};

struct stack_table {
	unsigned int cap;
	unsigned int count; /* entries ever used; the first are "[other stacks]", one of each kind */
	uint32_t free;
	uint64_t folded;
	struct entry *entries;
	/* By is_growth(). Without "[other stacks]"; the stack not seen for longest first. */
	struct entry *by_key[2];
	struct unknown *unknown; /* of processes that may send the mapping still */
	unsigned int nr_unknown, unknown_room;
	struct stack_mark *marks; /* the newest first */
	stack_pending_visit visit_pending;
	void *pending;
	struct live *live;
	bool knows_in_use;
	uint64_t logged; /* samples, ever */
	struct logged_sample log[STACKS_LOG_ROOM];
};

struct stack_table *stacks_new(unsigned int cap)
{
	struct stack_table *table = xcalloc(1, sizeof(*table));
	struct stack_key *key;
	unsigned int kind;

	table->cap = cap;
	table->live = live_new();
	table->entries = xcalloc(cap + HAB_KINDS, sizeof(*table->entries));
	table->free = NONE;
	table->count = HAB_KINDS;
	for (kind = 0; kind < HAB_KINDS; kind++) {
		key = table->entries[kind].key = xcalloc(1, sizeof(*key));
		key->kind = kind;
		strcpy(key->comm, "[other stacks]");
	}
	return table;
}

void stacks_free(struct stack_table *table)
{
	unsigned int i;

	if (!table)
		return;
	HASH_CLEAR(hh, table->by_key[false]);
	HASH_CLEAR(hh, table->by_key[true]);
	for (i = 0; i < table->count; i++) {
		free(table->entries[i].key);
		free(table->entries[i].use);
	}
	while (table->marks)
		stacks_unmark(table, table->marks);
	live_free(table->live);
	free(table->unknown);
	free(table->entries);
	free(table);
}

static bool is_growth(const struct stack_key *key)
{
	return key->kind == HAB_KIND_GROWTH;
}

static struct entry_use *use_of(struct entry *entry)
{
	if (!entry->use)
		entry->use = xcalloc(1, sizeof(*entry->use));
	return entry->use;
}

/* Moves the counts of the stack not seen for longest, of growth or not, into "[other stacks]". */
static void fold_oldest(struct stack_table *table, bool of_growth)
{
	struct entry *entry = table->by_key[of_growth];
	uint32_t generation = entry->generation, kind = entry->key->kind;
	uint32_t number = (uint32_t)(entry - table->entries);
	struct stack_mark *mark;

	HASH_DELETE(hh, table->by_key[of_growth], entry);
	counts_add(&table->entries[kind].counts, &entry->counts);
	if (entry->use)
		in_use_add(&use_of(&table->entries[kind])->kept, &entry->use->kept);
	free(entry->use);
	for (mark = table->marks; mark; mark = mark->next)
		if (number < mark->count) {
			counts_add(&mark->counts[kind], &mark->counts[number]);
			memset(&mark->counts[number], 0, sizeof(mark->counts[number]));
		}
	free(entry->key);
	memset(entry, 0, sizeof(*entry));
	entry->generation = generation + 1;
	entry->next_free = table->free;
	table->free = number;
	table->folded++;
}

static bool has_frame(const struct stack_key *key, unsigned int binary)
{
	uint32_t i;

	for (i = 0; i < key->nr_frames; i++)
		if (FRAME_BINARY(key->frames[i]) == binary)
			return true;
	return false;
}

static bool is_of(const struct stack_table *table, const struct unknown *unknown, uint32_t pid,
		  uid_t user)
{
	const struct entry *entry = &table->entries[unknown->entry];

	return entry->key && entry->generation == unknown->generation && entry->key->pid == pid &&
	       entry->key->uid == user;
}

/* Those whose entry has another stack by now are left out. */
static void tidy_unknown(struct stack_table *table)
{
	const struct entry *entry;
	unsigned int i, kept = 0;

	for (i = 0; i < table->nr_unknown; i++) {
		entry = &table->entries[table->unknown[i].entry];
		if (entry->key && entry->generation == table->unknown[i].generation)
			table->unknown[kept++] = table->unknown[i];
	}
	table->nr_unknown = kept;
}

static void note_unknown(struct stack_table *table, const struct entry *entry)
{
	if (is_growth(entry->key) || !has_frame(entry->key, BINARY_UNKNOWN))
		return;
	if (table->nr_unknown >= table->cap)
		tidy_unknown(table);
	table->unknown = xgrow(table->unknown, table->nr_unknown, &table->unknown_room,
			       sizeof(*table->unknown));
	table->unknown[table->nr_unknown++] =
		(struct unknown){ (uint32_t)(entry - table->entries), entry->generation };
}

static struct entry *new_entry(struct stack_table *table, const struct stack_key *key)
{
	unsigned int nr_growth = HASH_COUNT(table->by_key[true]);
	struct entry *entry;

	/* Every short process has stacks of growth: those of what is allocated have room left. */
	if (is_growth(key) && nr_growth >= table->cap / GROWTH_PART)
		fold_oldest(table, true);
	else if (table->free == NONE && table->count >= table->cap + HAB_KINDS)
		fold_oldest(table, !table->by_key[false]);
	if (table->free == NONE) {
		entry = &table->entries[table->count++];
	} else {
		entry = &table->entries[table->free];
		table->free = entry->next_free;
	}
	entry->key = xcalloc(1, stack_key_size(key));
	memcpy(entry->key, key, stack_key_size(key));
	note_unknown(table, entry);
	return entry;
}

/* The entry of @key, which is now the one seen last. */
static struct entry *find_entry(struct stack_table *table, const struct stack_key *key)
{
	struct entry **by_key = &table->by_key[is_growth(key)];
	size_t size = stack_key_size(key);
	struct entry *entry;
	unsigned int hash;

	HASH_VALUE(key, size, hash);
	HASH_FIND_BYHASHVALUE(hh, *by_key, key, size, hash, entry);
	if (entry && !entry->hh.next)
		return entry;
	if (entry)
		HASH_DELETE(hh, *by_key, entry);
	else
		entry = new_entry(table, key);
	HASH_ADD_KEYPTR_BYHASHVALUE(hh, *by_key, entry->key, size, hash, entry);
	return entry;
}

static size_t mark_size(unsigned int count)
{
	return sizeof(struct stack_mark) + count * sizeof(struct stack_counts);
}

static bool is_before(const struct stack_mark *mark, bool has_window, uint64_t time_ns)
{
	return has_window && time_ns < mark->since_ns;
}

/* Counts a sample that was pending at @mark, and is not since it. */
static void add_before(struct stack_mark *mark, unsigned int number,
		       const struct stack_counts *counts)
{
	unsigned int more = number < mark->count ? 0 : number + 1 - mark->count;

	if (more) {
		mark->counts = xrealloc(mark->counts, number + 1, sizeof(*mark->counts));
		memset(mark->counts + mark->count, 0, more * sizeof(*mark->counts));
		mark->count += more;
		if (!mark->of_viewer)
			limits_add(LIMITED_MARKS, more * sizeof(*mark->counts));
	}
	counts_add(&mark->counts[number], counts);
}

void stacks_add(struct stack_table *table, const struct hab_record_sample *sample,
		const struct stack_key *key)
{
	struct stack_counts counts = sample_counts(sample, sample->probability);
	struct stack_mark *mark;
	struct entry *entry;

	entry = find_entry(table, key);
	counts_add(&entry->counts, &counts);
	for (mark = table->marks; mark; mark = mark->next)
		if (is_before(mark, sample->window, sample->head.time_ns))
			add_before(mark, (unsigned int)(entry - table->entries), &counts);
	table->log[table->logged++ % STACKS_LOG_ROOM] = (struct logged_sample){
		.time_ns = sample->head.time_ns,
		.weight = counts.weight,
		.estimate = counts.estimate,
		.object_bytes = sample->object_bytes,
		.chunk_bytes = sample->chunk_bytes,
		.tid = sample->head.tid,
		.stack = (uint32_t)(entry - table->entries),
		.generation = entry->generation,
		.has_window = sample->window != 0,
	};
	if (sample->live_slot)
		live_place(table->live, sample, (uint32_t)(entry - table->entries),
			   entry->generation);
}

/* Two entries may have the same key afterwards: each has its own samples. */
static void set_frames(struct stack_table *table, struct entry *entry, const uint64_t *frames)
{
	struct stack_key *key = entry->key;

	HASH_DELETE(hh, table->by_key[is_growth(key)], entry);
	memcpy(key->frames, frames, key->nr_frames * sizeof(*frames));
	HASH_ADD_KEYPTR(hh, table->by_key[is_growth(key)], key, stack_key_size(key), entry);
}

static int compare_renamed(const void *one, const void *two)
{
	const struct process_renamed *first = one, *second = two;

	if (first->pid != second->pid)
		return first->pid < second->pid ? -1 : 1;
	return first->user < second->user ? -1 : first->user > second->user;
}

void stack_sort_renamed(struct process_renamed *renamed, unsigned int nr)
{
	qsort(renamed, nr, sizeof(*renamed), compare_renamed);
}

bool stack_rename(struct stack_key *key, const struct process_renamed *renamed, unsigned int nr)
{
	const struct process_renamed wanted = { .pid = key->pid, .user = key->uid }, *found;

	found = bsearch(&wanted, renamed, nr, sizeof(wanted), compare_renamed);
	if (!found || memcmp(key->comm, found->from, sizeof(key->comm)) != 0)
		return false;
	memcpy(key->comm, found->to, sizeof(key->comm));
	return true;
}

void stacks_rename(struct stack_table *table, struct process_renamed *renamed, unsigned int nr)
{
	struct entry *entry;
	unsigned int i;

	stack_sort_renamed(renamed, nr);
	for (i = HAB_KINDS; i < table->count; i++) {
		entry = &table->entries[i];
		/* It is removed by its former hash, which it keeps. */
		if (!entry->key || !stack_rename(entry->key, renamed, nr))
			continue;
		HASH_DELETE(hh, table->by_key[is_growth(entry->key)], entry);
		HASH_ADD_KEYPTR(hh, table->by_key[is_growth(entry->key)], entry->key,
				stack_key_size(entry->key), entry);
	}
}

static void translate_again(struct stack_table *table, struct entry *entry,
			    stack_translate translate, void *context)
{
	const struct stack_key *key = entry->key;
	uint64_t *frames = xcalloc(key->nr_frames, sizeof(*frames));
	uint32_t i;

	for (i = 0; i < key->nr_frames; i++)
		frames[i] = FRAME_BINARY(key->frames[i]) == BINARY_UNKNOWN ?
				    translate(context, key->pid, key->frames[i]) :
				    key->frames[i];
	if (memcmp(frames, key->frames, key->nr_frames * sizeof(*frames)) != 0)
		set_frames(table, entry, frames);
	free(frames);
}

void stacks_translate_again(struct stack_table *table, uint32_t pid, uid_t user,
			    stack_translate translate, void *context)
{
	unsigned int i;

	for (i = 0; i < table->nr_unknown; i++)
		if (is_of(table, &table->unknown[i], pid, user))
			translate_again(table, &table->entries[table->unknown[i].entry], translate,
					context);
}

void stacks_end_process(struct stack_table *table, uint32_t pid, uid_t user)
{
	unsigned int i, kept = 0;

	for (i = 0; i < table->nr_unknown; i++)
		if (!is_of(table, &table->unknown[i], pid, user))
			table->unknown[kept++] = table->unknown[i];
	table->nr_unknown = kept;
}

/* The entry that counts for a live sample: its own, or "[other stacks]" if that was folded. */
static struct entry *entry_of(struct stack_table *table, uint32_t stack, uint32_t generation)
{
	struct entry *entry = &table->entries[stack];

	return entry->generation == generation && entry->key ? entry :
							       &table->entries[HAB_EVENT_SAMPLE];
}

static void count_object(void *context, uint32_t stack, uint32_t generation,
			 const struct in_use *in_use)
{
	in_use_add(&use_of(entry_of(context, stack, generation))->now, in_use);
}

static void keep_object(void *context, uint32_t stack, uint32_t generation,
			const struct in_use *in_use)
{
	in_use_add(&use_of(entry_of(context, stack, generation))->kept, in_use);
}

struct live *stacks_live(struct stack_table *table)
{
	return table->live;
}

void stacks_set_in_use_known(struct stack_table *table)
{
	table->knows_in_use = true;
}

bool stacks_know_in_use(const struct stack_table *table)
{
	return table->knows_in_use;
}

static void count_in_use(struct stack_table *table)
{
	unsigned int i;

	for (i = 0; i < table->count; i++)
		if (table->entries[i].use)
			table->entries[i].use->now = table->entries[i].use->kept;
	live_visit_all(table->live, count_object, table);
}

uint64_t stacks_count_in_use(struct stack_table *table)
{
	return table->knows_in_use ? live_count(table->live) : 0;
}

uint64_t stacks_in_use_of(const struct stack_table *table, uint32_t pid)
{
	return live_bytes_of(table->live, pid);
}

void stacks_keep_in_use(struct stack_table *table, const struct live_process *process)
{
	live_visit_process(process, keep_object, table);
}

unsigned int stacks_count(const struct stack_table *table)
{
	return HASH_COUNT(table->by_key[false]) + HASH_COUNT(table->by_key[true]);
}

uint64_t stacks_folded(const struct stack_table *table)
{
	return table->folded;
}

struct stack_mark *stacks_mark(struct stack_table *table, uint64_t since_ns, bool of_viewer)
{
	struct stack_mark *mark = xcalloc(1, sizeof(*mark));
	unsigned int i;

	mark->since_ns = since_ns;
	mark->count = table->count;
	mark->counts = xcalloc(mark->count, sizeof(*mark->counts));
	mark->of_viewer = of_viewer;
	if (!of_viewer)
		limits_add(LIMITED_MARKS, mark_size(mark->count));
	for (i = 0; i < mark->count; i++)
		mark->counts[i] = table->entries[i].counts;
	mark->logged = table->logged;
	mark->next = table->marks;
	table->marks = mark;
	return mark;
}

struct stack_mark *stacks_mark_next(struct stack_table *table, const struct stack_mark *mark,
				    bool of_viewer)
{
	return stacks_mark(table, mark ? mark->since_ns : 0, of_viewer);
}

void stacks_unmark(struct stack_table *table, struct stack_mark *mark)
{
	struct stack_mark **link = &table->marks;

	if (!mark)
		return;
	while (*link != mark)
		link = &(*link)->next;
	*link = mark->next;
	if (!mark->of_viewer)
		limits_give_back(LIMITED_MARKS, mark_size(mark->count));
	free(mark->counts);
	free(mark);
}

void stacks_visit_settled(struct stack_table *table, const struct stack_mark *mark,
			  stack_visit visit, void *context)
{
	const struct in_use *in_use;
	struct stack_counts counts;
	const struct entry *entry;
	unsigned int i;

	count_in_use(table);
	for (i = 0; i < table->count; i++) {
		entry = &table->entries[i];
		counts = entry->counts;
		if (mark && i < mark->count)
			counts_subtract(&counts, &mark->counts[i]);
		in_use = entry->use && entry->use->now.objects ? &entry->use->now : NULL;
		if (counts.samples || in_use)
			visit(context, i, entry->key, &counts, in_use);
	}
}

void stacks_visit(struct stack_table *table, const struct stack_mark *mark, stack_visit visit,
		  void *context)
{
	stacks_visit_settled(table, mark, visit, context);
	if (table->visit_pending)
		table->visit_pending(table->pending, mark ? mark->since_ns : 0, visit, context);
}

void stacks_visit_log(struct stack_table *table, const struct stack_mark *mark,
		      stack_log_visit visit, void *context)
{
	uint64_t at = table->logged > STACKS_LOG_ROOM ? table->logged - STACKS_LOG_ROOM : 0;
	const struct logged_sample *sample;

	if (mark && at < mark->logged)
		at = mark->logged;
	for (; at < table->logged; at++) {
		sample = &table->log[at % STACKS_LOG_ROOM];
		if (mark && is_before(mark, sample->has_window, sample->time_ns))
			continue;
		/* Else the entry is another stack's by now. */
		if (table->entries[sample->stack].generation == sample->generation)
			visit(context, sample);
	}
}

void stacks_set_pending(struct stack_table *table, stack_pending_visit visit, void *pending)
{
	table->visit_pending = visit;
	table->pending = pending;
}

/*
 * An event stands for 1 / p of its kind, with p the probability that it became a sample: that it
 * was drawn by the program, and then kept by the throttler.
 */
struct stack_counts sample_counts(const struct hab_record_sample *sample, uint64_t probability)
{
	double p =
		drawn_probability(sample->bytes, sample->interval) * (double)probability * 0x1p-32;
	double bytes = (double)sample->bytes / p, events = 1.0 / sample->parts / p;

	return (struct stack_counts){
		.samples = 1,
		.bytes = sample->bytes,
		.weight = sample->weight,
		.estimate = sample_sum(bytes),
		.events = sample_sum(events * (1 << STACKS_EVENT_SHIFT)),
		.variance = bytes * bytes * (1 - p),
		.events_variance = events * events * (1 - p),
	};
}
