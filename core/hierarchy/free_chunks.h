/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Free chunks of regions: a list for each CPU, and an inbox for each home.
 *
 * A list is changed only by rseq sections on its CPU: they push a chain or pop a chunk, and the
 * store to the list's word commits. An inbox belongs to all CPUs of a home. Every CPU pushes chains
 * to it by cmpxchg; a taker empties it by one exchange. So no word is ever compared with a chunk
 * that was popped in between, and there is no ABA.
 *
 * The hard case is a collection from another CPU: a section may have read a list before the
 * collection emptied it, and store it afterwards. So the collection puts HAB_LIST_STOPPED into the
 * words, at which new sections stop, ends the sections that run, and looks again: a word that is no
 * longer HAB_LIST_STOPPED was stored by such a section, and is what the list really is.
 *
 * The lists are user space's alone: the kernel neither has nor reads them.
 */
#ifndef HAB_CORE_FREE_CHUNKS_H
#define HAB_CORE_FREE_CHUNKS_H

#include "core/os.h"

/* A list's word during a collection: sections leave the list alone. */
#define HAB_LIST_STOPPED 1ull

/**
 * struct hab_free_chunk - head of each chunk of a region, free or not
 * @next: address of the next one in a chain; 0: none
 * @home: index of its inbox; 0: the heap, which belongs to no domain
 * @class: its size class
 * @bytes: its size, with this head
 */
struct hab_free_chunk {
	u64 next;
	u32 home;
	u32 class;
	u64 bytes;
	u64 reserved;
};

/* Chunks that are linked from @first to @last; @last's link is not read. */
struct hab_chunk_chain {
	u64 first;
	u64 last;
};

/**
 * struct hab_free_lists - all words
 * @nr_lists: words of lists
 * @nr_inboxes: words of inboxes
 * @lists: changed in sections only
 * @inboxes: changed by atomic instructions
 * @emptied: as long as @lists; for the collection
 */
struct hab_free_lists {
	u32 nr_lists;
	u32 nr_inboxes;
	u64 *lists;
	u64 *inboxes;
	u64 *emptied;
};

static inline struct hab_free_chunk *hab_free_chunk_at(u64 address)
{
	return (struct hab_free_chunk *)(uintptr_t)address;
}

/* Adds a chain to an inbox. */
void hab_inbox_push(u64 *inbox, const struct hab_chunk_chain *chain);

/* Adds the chain to an empty inbox; false if it is not empty. The chain has an end. */
bool hab_inbox_fill(u64 *inbox, u64 first);

/* Empties an inbox: the first of its chunks, or 0. */
u64 hab_inbox_take(u64 *inbox);

/**
 * hab_chain_cut - cut a chain after its first chunks
 * @chain: @first is set; @last is set to the last of at most @most chunks
 * @most: at least 1
 *
 * Return: the first chunk behind it, or 0.
 */
u64 hab_chain_cut(struct hab_chunk_chain *chain, u32 most);

/**
 * hab_free_lists_collect - empty all inboxes, and all lists if sections can be stopped
 * @lists: one collection runs at a time
 * @stop_sections: restarts the sections that run on all CPUs; when it returns 0, each section that
 *	had begun before has ended or will restart
 *
 * Return: a chain of all chunks that were free, or 0.
 */
u64 hab_free_lists_collect(struct hab_free_lists *lists, int (*stop_sections)(void));

/* Empties all words; no thread uses them. */
void hab_free_lists_reset(struct hab_free_lists *lists);

/* The chain in the order of addresses. */
u64 hab_chain_sort(u64 first);

#endif /* HAB_CORE_FREE_CHUNKS_H */
