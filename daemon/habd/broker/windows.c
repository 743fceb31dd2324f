// SPDX-License-Identifier: GPL-2.0-only
/*
 * Keeps the owner of the sample in each slot of a window. If there are too many windows, the oldest
 * is dropped: its end was lost. A sample of that window that is replaced later still counts for its
 * owner.
 */
#include "daemon/habd/broker/windows.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/shared/hash.h"
#include "daemon/shared/util.h"

/* Each share of each kind has two: the end of the first may come late. Shares: 513. */
#define WINDOWS_MAX (2u * 513 * HAB_EVENT_KINDS)
#define SLOTS_MAX   16384u

struct window {
	UT_hash_handle hh;
	uint64_t id;
	unsigned int nr_slots, nr_owners, owners_room;
	uint64_t *slots;  /* the owner + 1 of each; 0: none yet */
	uint64_t *owners; /* with samples, each once */
};

struct windows {
	struct window *by_id; /* the oldest first */
};

struct windows *windows_new(void)
{
	return xcalloc(1, sizeof(struct windows));
}

static void drop(struct windows *windows, struct window *window)
{
	HASH_DELETE(hh, windows->by_id, window);
	free(window->slots);
	free(window->owners);
	free(window);
}

void windows_free(struct windows *windows)
{
	while (windows->by_id)
		drop(windows, windows->by_id);
	free(windows);
}

static struct window *find(struct windows *windows, uint64_t id)
{
	struct window *window;

	HASH_FIND(hh, windows->by_id, &id, sizeof(id), window);
	return window;
}

static uint64_t *slot_at(struct window *window, uint32_t slot)
{
	unsigned int count = window->nr_slots ? window->nr_slots : 16;

	if (slot >= SLOTS_MAX)
		return NULL;
	while (count <= slot)
		count *= 2;
	if (count != window->nr_slots) {
		window->slots = xrealloc(window->slots, count, sizeof(*window->slots));
		memset(window->slots + window->nr_slots, 0,
		       (count - window->nr_slots) * sizeof(*window->slots));
		window->nr_slots = count;
	}
	return &window->slots[slot];
}

bool windows_add(struct windows *windows, const struct hab_record_sample *sample, uint64_t owner,
		 uint64_t *before)
{
	struct window *window = find(windows, sample->window);
	uint64_t *slot, last;
	unsigned int i;

	if (!sample->window)
		return false;
	if (!window) {
		if (HASH_COUNT(windows->by_id) >= WINDOWS_MAX)
			drop(windows, windows->by_id);
		window = xcalloc(1, sizeof(*window));
		window->id = sample->window;
		HASH_ADD(hh, windows->by_id, id, sizeof(window->id), window);
	}
	for (i = 0; i < window->nr_owners && window->owners[i] != owner; i++)
		;
	if (i == window->nr_owners) {
		window->owners = xgrow(window->owners, window->nr_owners, &window->owners_room,
				       sizeof(*window->owners));
		window->owners[window->nr_owners++] = owner;
	}
	slot = slot_at(window, sample->slot);
	if (!slot)
		return false;
	last = *slot;
	*slot = owner + 1;
	*before = last - 1;
	return last && last - 1 != owner;
}

void windows_end(struct windows *windows, uint64_t id,
		 void (*visit)(void *context, uint64_t owner), void *context)
{
	struct window *window = find(windows, id);
	unsigned int i;

	if (!window)
		return;
	for (i = 0; i < window->nr_owners; i++)
		visit(context, window->owners[i]);
	drop(windows, window);
}
