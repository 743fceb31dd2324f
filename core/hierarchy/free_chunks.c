// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Inboxes, and the collection of all free chunks; see free_chunks.h.
 */
#include "core/hierarchy/free_chunks.h"

void hab_inbox_push(u64 *inbox, const struct hab_chunk_chain *chain)
{
	u64 old = READ_ONCE(*inbox), found;

	for (;;) {
		hab_free_chunk_at(chain->last)->next = old;
		/* Orders the chain before the word; pairs with the exchange in hab_inbox_take(). */
		found = hab_word_cmpxchg(inbox, old, chain->first);
		if (found == old)
			return;
		old = found;
	}
}

bool hab_inbox_fill(u64 *inbox, u64 first)
{
	/* Pairs with the exchange in hab_inbox_take(). */
	return !hab_word_cmpxchg(inbox, 0, first);
}

u64 hab_inbox_take(u64 *inbox)
{
	/* Most are empty, and a load leaves the cache line shared. */
	return READ_ONCE(*inbox) ? hab_word_exchange(inbox, 0) : 0;
}

u64 hab_chain_cut(struct hab_chunk_chain *chain, u32 most)
{
	struct hab_free_chunk *last = hab_free_chunk_at(chain->first);
	u64 behind;

	while (--most && last->next)
		last = hab_free_chunk_at(last->next);
	behind = last->next;
	last->next = 0;
	chain->last = (uintptr_t)last;
	return behind;
}

/* Puts the chain @first before @all. */
static u64 join(u64 first, u64 all)
{
	struct hab_chunk_chain chain = { .first = first };

	if (!first)
		return all;
	hab_chain_cut(&chain, ~0u);
	hab_free_chunk_at(chain.last)->next = all;
	return first;
}

/* true if a list was not stopped yet. */
static bool stop_lists(struct hab_free_lists *lists)
{
	bool found = false;
	u32 i;

	for (i = 0; i < lists->nr_lists; i++) {
		u64 word = hab_word_exchange(&lists->lists[i], HAB_LIST_STOPPED);

		if (word == HAB_LIST_STOPPED)
			continue;
		lists->emptied[i] = word;
		found = true;
	}
	return found;
}

/* A list that a section has stored meanwhile is right, and stays. */
static void restore_lists(struct hab_free_lists *lists)
{
	u32 i;

	for (i = 0; i < lists->nr_lists; i++)
		hab_word_cmpxchg(&lists->lists[i], HAB_LIST_STOPPED, lists->emptied[i]);
}

static u64 collect_lists(struct hab_free_lists *lists, int (*stop_sections)(void))
{
	u64 all = 0;
	u32 i;

	/* If sections cannot be stopped, no list may be emptied. */
	if (stop_sections())
		return 0;
	memset(lists->emptied, 0, lists->nr_lists * sizeof(*lists->emptied));
	while (stop_lists(lists)) {
		if (stop_sections()) {
			restore_lists(lists);
			return 0;
		}
	}
	for (i = 0; i < lists->nr_lists; i++) {
		all = join(lists->emptied[i], all);
		/* Pairs with the load in the sections: they find the list empty. */
		hab_store_release(&lists->lists[i], 0);
	}
	return all;
}

u64 hab_free_lists_collect(struct hab_free_lists *lists, int (*stop_sections)(void))
{
	u64 all = collect_lists(lists, stop_sections);
	u32 i;

	for (i = 0; i < lists->nr_inboxes; i++)
		all = join(hab_inbox_take(&lists->inboxes[i]), all);
	return all;
}

void hab_free_lists_reset(struct hab_free_lists *lists)
{
	u32 i;

	for (i = 0; i < lists->nr_lists; i++)
		WRITE_ONCE(lists->lists[i], 0);
	for (i = 0; i < lists->nr_inboxes; i++)
		WRITE_ONCE(lists->inboxes[i], 0);
}

static u64 merge(u64 a, u64 b)
{
	u64 first = 0, *link = &first;

	while (a && b) {
		u64 *lower = a < b ? &a : &b;

		*link = *lower;
		link = &hab_free_chunk_at(*lower)->next;
		*lower = *link;
	}
	*link = a ? a : b;
	return first;
}

/* Merge sort: @sorted[i] is a chain of 2^i chunks, or 0. */
u64 hab_chain_sort(u64 first)
{
	u64 sorted[48] = { 0 };
	u64 all = 0, chain;
	u32 i;

	while (first) {
		chain = first;
		first = hab_free_chunk_at(chain)->next;
		hab_free_chunk_at(chain)->next = 0;
		for (i = 0; sorted[i]; i++) {
			chain = merge(sorted[i], chain);
			sorted[i] = 0;
		}
		sorted[i] = chain;
	}
	for (i = 0; i < sizeof(sorted) / sizeof(sorted[0]); i++)
		all = merge(sorted[i], all);
	return all;
}
