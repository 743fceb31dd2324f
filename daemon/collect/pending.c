// SPDX-License-Identifier: GPL-2.0-only
/*
 * Samples whose window is not over yet.
 *
 * A later sample may replace an earlier one of its window (core/throttle/window.h). At the end of
 * the window the last sample of each slot stays; its final probability is that of its record times
 * quota / candidates. A profile that is made before is shown the estimates that would be true if
 * the window ended now.
 *
 * The end of a window is lost if the ring buffer was full, and a high rate may give a window too
 * many samples to keep. Then the window is finished without its end: the number of candidates is
 * estimated from the highest one seen, and the window is counted. Windows and slots are limited,
 * too: a file of records may name a million windows, and the last slot of each.
 */
#include "daemon/collect/pending.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/shared/hash.h"

#define SAMPLES_MAX 16384u
#define SLOTS_MAX   (8 * SAMPLES_MAX)
#define WINDOWS_MAX 16384u	  /* of all shares, for the two seconds that they stay */
#define LATE_NS	    800000000ull  /* samples may come so long after the end of their window */
#define NO_END_NS   5000000000ull /* an end that is so late is taken as lost */

struct pending_window {
	UT_hash_handle hh;
	uint64_t id;
	uint64_t candidates; /* exact once @ended, else the highest one seen */
	uint64_t due_ns;
	uint32_t quota;
	bool ended;
	bool finished; /* its samples are in the table */
	uint32_t nr_slots;
	struct sample **slots;
};

struct pending {
	struct stack_table *stacks;
	struct pending_counts counts;
	unsigned int nr_samples;
	uint64_t nr_slots;
	/* Bytes of samples that other owners have replaced; the next sample gets them. */
	uint64_t weight;
	uint64_t next_due_ns; /* no window is due before */
	struct pending_window *windows;
};

static struct pending_window *find_window(const struct pending *pending, uint64_t id)
{
	struct pending_window *window;

	HASH_FIND(hh, pending->windows, &id, sizeof(id), window);
	return window;
}

/* The candidates of the window, or the best estimate. */
static uint64_t candidates_of(const struct pending_window *window)
{
	if (window->ended || !HAB_REPLACES(window->candidates, window->quota))
		return window->candidates;
	/* On the average so many came after the last one that was kept. */
	return window->candidates + window->candidates / window->quota;
}

/* The probability of @sample if the window ends now. */
static uint64_t final_probability(const struct pending_window *window,
				  const struct hab_record_sample *sample)
{
	uint64_t candidates = candidates_of(window), probability = sample->probability;

	if (candidates > window->quota)
		probability =
			(uint64_t)((double)probability * window->quota / (double)candidates + 0.5);
	return probability ? probability : 1;
}

/* Moves a sample into the table. */
static void settle(struct pending *pending, const struct pending_window *window,
		   struct sample *sample)
{
	if (!sample->key) {
		pending->weight += sample->record.weight;
	} else {
		sample->record.probability = final_probability(window, &sample->record);
		stacks_add(pending->stacks, &sample->record, sample->key);
	}
	sample_free(sample);
}

/* Moves the window's samples into the table. */
static void finish(struct pending *pending, struct pending_window *window)
{
	uint32_t i;

	pending->counts.unfinished += !window->ended && !window->finished;
	for (i = 0; i < window->nr_slots; i++) {
		if (!window->slots[i])
			continue;
		settle(pending, window, window->slots[i]);
		pending->nr_samples--;
	}
	free(window->slots);
	window->slots = NULL;
	pending->nr_slots -= window->nr_slots;
	window->nr_slots = 0;
	window->finished = true;
}

void pending_rename(struct pending *pending, struct process_renamed *renamed, unsigned int nr)
{
	struct pending_window *window;
	uint32_t i;

	stack_sort_renamed(renamed, nr);
	for (window = pending->windows; window; window = window->hh.next)
		for (i = 0; i < window->nr_slots; i++)
			if (window->slots[i] && window->slots[i]->key)
				stack_rename(window->slots[i]->key, renamed, nr);
}

static void visit_pending(void *context, uint64_t since_ns, stack_visit visit, void *visitor)
{
	const struct pending *pending = context;
	const struct sample *sample;
	struct stack_counts counts;
	struct pending_window *window;
	uint32_t i;

	for (window = pending->windows; window; window = window->hh.next) {
		for (i = 0; i < window->nr_slots; i++) {
			sample = window->slots[i];
			if (!sample || !sample->key || sample->record.head.time_ns < since_ns)
				continue;
			counts = sample_counts(&sample->record,
					       final_probability(window, &sample->record));
			visit(visitor, STACK_PENDING, sample->key, &counts, NULL);
		}
	}
}

struct pending *pending_new(struct stack_table *stacks)
{
	struct pending *pending = xcalloc(1, sizeof(*pending));

	pending->stacks = stacks;
	pending->next_due_ns = UINT64_MAX;
	stacks_set_pending(stacks, visit_pending, pending);
	return pending;
}

void pending_free(struct pending *pending)
{
	if (!pending)
		return;
	pending_flush_all(pending);
	stacks_set_pending(pending->stacks, NULL, NULL);
	free(pending);
}

static void set_due(struct pending *pending, struct pending_window *window, uint64_t due_ns)
{
	window->due_ns = due_ns;
	if (due_ns < pending->next_due_ns)
		pending->next_due_ns = due_ns;
}

static void remove_window(struct pending *pending, struct pending_window *window)
{
	finish(pending, window);
	HASH_DELETE(hh, pending->windows, window);
	free(window);
}

static void flush_until(struct pending *pending, uint64_t limit_ns)
{
	struct pending_window *window, *next;

	pending->next_due_ns = UINT64_MAX;
	HASH_ITER(hh, pending->windows, window, next)
	{
		if (window->due_ns <= limit_ns)
			remove_window(pending, window);
		else
			set_due(pending, window, window->due_ns);
	}
}

void pending_announce(struct pending *pending, const struct hab_record_sample *sample,
		      uint64_t now_ns)
{
	struct pending_window *window = find_window(pending, sample->window);

	if (!sample->window)
		return;
	/* The oldest: most likely none of its samples are to come. */
	if (!window && HASH_COUNT(pending->windows) >= WINDOWS_MAX)
		remove_window(pending, pending->windows);
	if (!window) {
		window = xcalloc(1, sizeof(*window));
		window->id = sample->window;
		window->quota = sample->quota;
		HASH_ADD(hh, pending->windows, id, sizeof(window->id), window);
		set_due(pending, window, now_ns + sample->window_ms * 1000000ull + NO_END_NS);
	}
	if (!window->ended && sample->candidate > window->candidates)
		window->candidates = sample->candidate;
}

/* The window with most slots. */
static void finish_largest(struct pending *pending)
{
	struct pending_window *window, *largest = NULL;

	for (window = pending->windows; window; window = window->hh.next)
		if (window->nr_slots && (!largest || window->nr_slots > largest->nr_slots))
			largest = window;
	if (largest)
		finish(pending, largest);
}

static struct sample **find_slot(struct pending *pending, struct pending_window *window,
				 uint32_t slot)
{
	uint32_t count = window->nr_slots ? window->nr_slots : 16;

	while (count <= slot)
		count *= 2;
	if (count != window->nr_slots) {
		window->slots = xrealloc(window->slots, count, sizeof(*window->slots));
		memset(window->slots + window->nr_slots, 0,
		       (count - window->nr_slots) * sizeof(*window->slots));
		pending->nr_slots += count - window->nr_slots;
		window->nr_slots = count;
	}
	return &window->slots[slot];
}

/* The window is finished: only a sample with a slot of its own can still be added. */
static void add_late(struct pending *pending, const struct pending_window *window,
		     struct sample *sample)
{
	if (!sample->key || !HAB_REPLACES(sample->record.candidate, sample->record.quota)) {
		settle(pending, window, sample);
		return;
	}
	pending->counts.replaced++;
	sample_free(sample);
}

void pending_add(struct pending *pending, struct sample *sample)
{
	struct hab_record_sample *record = &sample->record;
	struct pending_window alone = { .quota = record->quota, .candidates = record->candidate };
	struct pending_window *window = find_window(pending, record->window);
	struct sample **slot, *other;

	if (sample->key) {
		record->weight = hab_add_saturated(record->weight, pending->weight);
		pending->weight = 0;
	}
	if (!record->window) {
		stacks_add(pending->stacks, record, sample->key);
		sample_free(sample);
		return;
	}
	if (pending->nr_samples >= SAMPLES_MAX || pending->nr_slots >= SLOTS_MAX)
		finish_largest(pending);
	if (window && !window->finished && record->slot >= SAMPLES_MAX)
		finish(pending, window);
	if (!window || window->finished) {
		add_late(pending, window ? window : &alone, sample);
		return;
	}
	slot = find_slot(pending, window, record->slot);
	other = *slot;
	*slot = sample;
	if (!other) {
		pending->nr_samples++;
		return;
	}
	pending->counts.replaced++;
	/* The earlier candidate waited longer for its stack. */
	if (other->record.candidate > record->candidate) {
		*slot = other;
		other = sample;
	}
	/* Bytes of the replaced one's thread: weights still add up to all bytes. */
	(*slot)->record.weight += other->record.weight;
	sample_free(other);
}

void pending_end_window(struct pending *pending, const struct hab_record_window *end,
			uint64_t now_ns)
{
	struct pending_window *window = find_window(pending, end->window);

	/* All samples of a window may have been lost. */
	if (!window || window->ended)
		return;
	window->ended = true;
	window->candidates = end->candidates;
	set_due(pending, window, now_ns + LATE_NS);
}

void pending_flush(struct pending *pending, uint64_t now_ns)
{
	if (now_ns >= pending->next_due_ns)
		flush_until(pending, now_ns);
}

void pending_flush_all(struct pending *pending)
{
	flush_until(pending, UINT64_MAX);
}

const struct pending_counts *pending_counts(const struct pending *pending)
{
	return &pending->counts;
}
