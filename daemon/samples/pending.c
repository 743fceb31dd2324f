// SPDX-License-Identifier: GPL-2.0-only
/*
 * Samples whose window is not over yet.
 *
 * The throttler keeps a uniform choice of a window's candidates by letting later ones
 * replace earlier ones (core/window.h), so what a sample stands for is known when
 * the window ends: the last one in each slot has been kept with the probability it came
 * with, times quota / candidates. Who looks at the table meanwhile is shown what
 * would be true if the window ended now.
 *
 * The hard case is a window whose end never comes, because the ring was full, and a rate so
 * high that the samples of a window are too many to hold. Then the number of
 * candidates is estimated from the highest that was seen, and it is counted. The windows of
 * rates per hour and per day are long, but have few samples. Limits hold for windows and slots,
 * too: a file of records may name a million windows, and the last slot of each.
 */
#include "daemon/samples/pending.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/shared/util.h"

#define HELD_MAX     16384u
#define SLOTS_MAX    (8 * HELD_MAX)
#define WINDOWS_MAX  16384u /* of all shares, of the two seconds that they live */
#define NR_BUCKETS   1024u
#define STRAGGLER_NS 800000000ull  /* samples may come so long after their window's end */
#define NO_END_NS    5000000000ull /* the end may come so much later than it should */

struct held {
	struct stack_key key;
	struct stack_event event;
	uint64_t bytes;
	uint64_t weight;
	uint64_t probability;
	uint64_t candidate;
	uint32_t parts;
};

struct window {
	struct window *next; /* in its bucket */
	uint64_t id;
	uint64_t candidates; /* that there were, or the highest seen */
	uint64_t due_ns;
	uint32_t quota;
	bool ended;
	bool finished; /* its samples are in the table */
	uint32_t room;
	struct held **slots;
};

struct hold {
	struct stack_table *stacks;
	struct hold_counts counts;
	unsigned int nr_held;
	uint64_t nr_slots;
	unsigned int nr_windows;
	uint64_t next_due_ns; /* no window is due before */
	struct window *buckets[NR_BUCKETS];
};

static struct window **find(struct hold *hold, uint64_t id)
{
	struct window **link = &hold->buckets[hash_bytes(&id, sizeof(id), 0) % NR_BUCKETS];

	while (*link && (*link)->id != id)
		link = &(*link)->next;
	return link;
}

/* Candidates of the window, as far as is known. */
static uint64_t candidates_of(const struct window *window)
{
	if (window->ended || window->candidates <= window->quota)
		return window->candidates;
	/* About so many came after the last one that was kept. */
	return window->candidates + window->candidates / window->quota;
}

static void weigh(const struct window *window, const struct held *held, struct stack_counts *counts)
{
	uint64_t candidates = candidates_of(window), probability = held->probability;

	if (candidates > window->quota)
		probability =
			(uint64_t)((double)probability * window->quota / (double)candidates + 0.5);
	if (!probability)
		probability = 1;
	*counts = (struct stack_counts){
		.samples = 1,
		.bytes = held->bytes,
		.weight = held->weight,
		.estimate = stacks_estimate(held->bytes, probability),
		.events = stacks_estimate((1ull << STACKS_EVENT_SHIFT) / held->parts, probability),
		.variance = stacks_variance(held->bytes, probability),
	};
}

static void held_free(struct hold *hold, struct held *held)
{
	free((void *)held->key.frames);
	free(held);
	hold->nr_held--;
}

/* Moves the window's samples into the table. */
static void finish(struct hold *hold, struct window *window, uint64_t now_ns)
{
	struct stack_counts counts;
	uint32_t i;

	for (i = 0; i < window->room; i++) {
		if (!window->slots[i])
			continue;
		weigh(window, window->slots[i], &counts);
		stacks_add(hold->stacks, &window->slots[i]->key, &counts, &window->slots[i]->event,
			   now_ns);
		held_free(hold, window->slots[i]);
	}
	free(window->slots);
	window->slots = NULL;
	hold->nr_slots -= window->room;
	window->room = 0;
	window->finished = true;
}

static void show(void *context, stack_visit visit, void *visitor)
{
	struct hold *hold = context;
	struct stack_counts counts;
	struct window *window;
	uint32_t bucket, i;

	for (bucket = 0; bucket < NR_BUCKETS; bucket++)
		for (window = hold->buckets[bucket]; window; window = window->next)
			for (i = 0; i < window->room; i++) {
				if (!window->slots[i])
					continue;
				weigh(window, window->slots[i], &counts);
				visit(visitor, STACK_HELD, &window->slots[i]->key, &counts);
			}
}

struct hold *hold_new(struct stack_table *stacks)
{
	struct hold *hold = xcalloc(1, sizeof(*hold));

	hold->stacks = stacks;
	hold->next_due_ns = UINT64_MAX;
	stacks_also(stacks, show, hold);
	return hold;
}

void hold_free(struct hold *hold)
{
	if (!hold)
		return;
	hold_flush_all(hold);
	stacks_also(hold->stacks, NULL, NULL);
	free(hold);
}

static void set_due(struct hold *hold, struct window *window, uint64_t due_ns)
{
	window->due_ns = due_ns;
	if (due_ns < hold->next_due_ns)
		hold->next_due_ns = due_ns;
}

static void flush_before(struct hold *hold, uint64_t limit_ns, uint64_t now_ns)
{
	struct window **link, *window;
	uint32_t i;

	hold->next_due_ns = UINT64_MAX;
	for (i = 0; i < NR_BUCKETS; i++) {
		link = &hold->buckets[i];
		while ((window = *link)) {
			if (window->due_ns > limit_ns) {
				set_due(hold, window, window->due_ns);
				link = &window->next;
				continue;
			}
			hold->counts.unfinished += !window->ended;
			finish(hold, window, now_ns);
			*link = window->next;
			free(window);
			hold->nr_windows--;
		}
	}
}

/* Those that are due first are over, most likely: none of their samples are to come. */
static void finish_first_due(struct hold *hold, uint64_t now_ns)
{
	uint64_t first_ns = UINT64_MAX;
	struct window *window;
	uint32_t i;

	for (i = 0; i < NR_BUCKETS; i++)
		for (window = hold->buckets[i]; window; window = window->next)
			if (window->due_ns < first_ns)
				first_ns = window->due_ns;
	hold->counts.early++;
	flush_before(hold, first_ns, now_ns);
}

void hold_announce(struct hold *hold, const struct hab_record_sample *sample, uint64_t now_ns)
{
	struct window **link = find(hold, sample->window), *window = *link;

	if (!window && hold->nr_windows >= WINDOWS_MAX) {
		finish_first_due(hold, now_ns);
		link = find(hold, sample->window);
	}
	if (!window) {
		window = *link = xcalloc(1, sizeof(*window));
		hold->nr_windows++;
		window->id = sample->window;
		window->quota = sample->quota;
		set_due(hold, window, now_ns + sample->window_ms * 1000000ull + NO_END_NS);
	}
	if (!window->ended && sample->candidate > window->candidates)
		window->candidates = sample->candidate;
}

/* The one with most samples; all of them have some chance to be it. */
static void finish_largest(struct hold *hold, uint64_t now_ns)
{
	struct window *window, *largest = NULL;
	uint32_t i;

	for (i = 0; i < NR_BUCKETS; i++)
		for (window = hold->buckets[i]; window; window = window->next)
			if (window->room && (!largest || window->room > largest->room))
				largest = window;
	if (!largest)
		return;
	hold->counts.early++;
	finish(hold, largest, now_ns);
}

static struct held **find_slot(struct hold *hold, struct window *window, uint32_t slot)
{
	uint32_t room = window->room ? window->room : 16;

	while (room <= slot)
		room *= 2;
	if (room != window->room) {
		window->slots = xrealloc(window->slots, room, sizeof(*window->slots));
		memset(window->slots + window->room, 0,
		       (room - window->room) * sizeof(*window->slots));
		hold->nr_slots += room - window->room;
		window->room = room;
	}
	return &window->slots[slot];
}

static struct held *held_new(struct hold *hold, const struct hab_record_sample *sample,
			     const struct stack_key *key, const struct stack_event *event)
{
	struct held *held = xcalloc(1, sizeof(*held));
	uint64_t *frames = xcalloc(key->nr_frames, sizeof(*frames));

	if (key->nr_frames)
		memcpy(frames, key->frames, key->nr_frames * sizeof(*frames));
	held->key = *key;
	held->key.frames = frames;
	held->event = *event;
	held->bytes = sample->bytes;
	held->weight = sample->weight;
	held->probability = sample->probability;
	held->candidate = sample->candidate;
	held->parts = sample->parts;
	hold->nr_held++;
	return held;
}

/* Its window is in the table already: what has a slot of its own goes there, too. */
static void add_late(struct hold *hold, const struct window *window,
		     const struct hab_record_sample *sample, const struct stack_key *key,
		     const struct stack_event *event, uint64_t now_ns)
{
	struct held held = {
		.bytes = sample->bytes,
		.weight = sample->weight,
		.probability = sample->probability,
		.parts = sample->parts,
	};
	struct stack_counts counts;

	if (sample->candidate > sample->quota) {
		hold->counts.replaced++;
		return;
	}
	weigh(window, &held, &counts);
	stacks_add(hold->stacks, key, &counts, event, now_ns);
}

void hold_add(struct hold *hold, const struct hab_record_sample *sample,
	      const struct stack_key *key, const struct stack_event *event, uint64_t now_ns)
{
	struct window *window = *find(hold, sample->window);
	struct held **slot, *held;

	if (hold->nr_held >= HELD_MAX || hold->nr_slots >= SLOTS_MAX)
		finish_largest(hold, now_ns);
	if (window && !window->finished && sample->slot >= HELD_MAX) {
		hold->counts.early++;
		finish(hold, window, now_ns);
	}
	if (!window || window->finished) {
		struct window alone = { .quota = sample->quota, .candidates = sample->candidate };

		add_late(hold, window ? window : &alone, sample, key, event, now_ns);
		return;
	}
	slot = find_slot(hold, window, sample->slot);
	held = *slot;
	if (held && held->candidate > sample->candidate) {
		/* It waited longer for its stack than the one that replaces it. */
		held->weight += sample->weight;
		hold->counts.replaced++;
		return;
	}
	*slot = held_new(hold, sample, key, event);
	if (!held)
		return;
	/* Bytes of the replaced one's thread: weights still add up to all bytes. */
	(*slot)->weight += held->weight;
	held_free(hold, held);
	hold->counts.replaced++;
}

void hold_end(struct hold *hold, const struct hab_window_event *event, uint64_t now_ns)
{
	struct window *window = *find(hold, event->window);

	/* All its samples may have been lost. */
	if (!window || window->ended)
		return;
	window->ended = true;
	window->candidates = event->candidates;
	set_due(hold, window, now_ns + STRAGGLER_NS);
}

void hold_flush(struct hold *hold, uint64_t now_ns)
{
	if (now_ns >= hold->next_due_ns)
		flush_before(hold, now_ns, now_ns);
}

void hold_flush_all(struct hold *hold)
{
	flush_before(hold, UINT64_MAX, 0);
}

const struct hold_counts *hold_counts(const struct hold *hold)
{
	return &hold->counts;
}
