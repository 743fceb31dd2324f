// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Collection of a full heap's free chunks, see lists.h.
 */
#include "lib/alloc/lists.h"
#include "lib/alloc/lists_state.h"

/* Empties all lists: a chain of their chunks, or 0. */
static u64 take_all(struct hab_lists *lists)
{
	size_t i, nr = hab_lists_words(lists->nr_cpus);
	struct hab_free_chunk *last;
	u64 first, all = 0;

	for (i = 0; i < nr; i++) {
		/* Most are empty, and a load leaves the cache line shared. */
		first = READ_ONCE(lists->words[i]);
		if (first)
			/* Pairs with the cmpxchg in hab_lists_push(). */
			first = hab_word_exchange(&lists->words[i], 0);
		if (!first)
			continue;
		for (last = hab_free_chunk_at(first); last->next;
		     last = hab_free_chunk_at(last->next))
			;
		last->next = all;
		all = first;
	}
	return all;
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

/* Merge sort: sorted[i] has 2^i chunks, or none. */
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

u64 hab_chain_extent(struct hab_free_chunk *chunk, struct hab_free_chunk **last)
{
	u64 bytes = chunk->bytes;

	while (chunk->next == (uintptr_t)chunk + chunk->bytes) {
		chunk = hab_free_chunk_at(chunk->next);
		bytes += chunk->bytes;
	}
	*last = chunk;
	return bytes;
}

static u64 largest_extent(u64 chain)
{
	struct hab_free_chunk *last;
	u64 bytes, most = 0;

	for (; chain; chain = last->next) {
		bytes = hab_chain_extent(hab_free_chunk_at(chain), &last);
		most = bytes > most ? bytes : most;
	}
	return most;
}

void hab_chain_count(u64 *moved, const struct hab_free_chunk *first,
		     const struct hab_free_chunk *last)
{
	moved[first->level] += first->bytes;
	while (first != last) {
		first = hab_free_chunk_at(first->next);
		moved[first->level] += first->bytes;
	}
}

/* The chunks from @first to @last, and no other, go to the heap's lists. */
static void put_in_heap(struct hab_lists *lists, struct hab_free_chunk *first,
			const struct hab_free_chunk *last)
{
	u64 next;
	bool end = false;

	for (; !end; first = hab_free_chunk_at(next)) {
		end = first == last;
		next = first->next;
		lists->moved[0] -= first->bytes;
		first->home = lists->nr_cpus;
		first->level = 0;
		hab_lists_push(hab_lists_word(lists, lists->nr_cpus, first->class), first, first);
	}
}

/* true if all regions are closed; lock of the threads held. */
static bool all_closed_locked(const struct hab_heap *heap)
{
	const struct hab_thread *thread;
	u64 open = heap->exited.open_chunks;

	for (thread = heap->threads; thread; thread = thread->next)
		open += READ_ONCE(thread->counters.open_chunks);
	return !open;
}

/* Returns extents of at least @least bytes, at most @most of them, to the books. */
static bool return_extents(struct hab_heap *heap, u64 chain, u64 least, u32 most)
{
	struct hab_free_chunk *first, *last;
	bool returned = false;
	u64 bytes, next;

	for (; chain; chain = next) {
		first = hab_free_chunk_at(chain);
		bytes = hab_chain_extent(first, &last);
		next = last->next;
		hab_chain_count(heap->lists->moved, first, last);
		if (bytes < least || !most ||
		    heap->backend->give_back(heap, chain - (uintptr_t)heap->arena, bytes)) {
			put_in_heap(heap->lists, first, last);
			continue;
		}
		returned = true;
		most--;
	}
	return returned;
}

/* Lock of the threads held. */
static bool collect_locked(struct hab_heap *heap, u64 least)
{
	struct hab_lists *lists = heap->lists;
	u64 chain = hab_chain_sort(take_all(lists)), half;
	bool returned;

	if (!chain)
		return false;
	lists->collections++;
	if (all_closed_locked(heap)) {
		returned = return_extents(heap, chain, 0, UINT32_MAX);
	} else {
		half = largest_extent(chain) / 2;
		returned = return_extents(heap, chain, max(least, half), HAB_RETURNS_AT_ONCE);
	}
	WRITE_ONCE(lists->returns, lists->returns + returned);
	return returned;
}

u64 hab_lists_returns(const struct hab_heap *heap)
{
	return READ_ONCE(heap->lists->returns);
}

bool hab_lists_collect(struct hab_heap *heap, u64 least, u64 before)
{
	struct hab_lists *lists = heap->lists;
	bool returned;

	if (!READ_ONCE(lists->used))
		return false;
	/* A trim has chunks that are in no list. */
	hab_collect_lock();
	hab_thread_lock();
	/* Another thread may have returned memory while this one waited. */
	returned = lists->returns != before || collect_locked(heap, least);
	hab_thread_unlock();
	hab_collect_unlock();
	return returned;
}
