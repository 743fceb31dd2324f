/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What lists.c, lists_collect.c and trim.c share; lists.h is for all others.
 */
#ifndef HAB_LIB_ALLOC_LISTS_STATE_H
#define HAB_LIB_ALLOC_LISTS_STATE_H

#include "core/hierarchy/free_extents.h"
#include "lib/alloc/free_chunk.h"
#include "lib/thread.h"

/* The most extents that are returned to the books at once while regions are open: they keep few. */
#define HAB_RETURNS_AT_ONCE 32

/* A trim returns no smaller ones: each of them has a whole segment. */
#ifndef HAB_LEAST_RETURN /* explored tests return smaller ones */
#define HAB_LEAST_RETURN(arena_bytes) max(2ul << 20, (arena_bytes) / (HAB_SEGMENTS / 2))
#endif

/**
 * struct hab_lists - the free chunks of a heap
 * @words: first chunks, by home and class; the last home is the heap. Behind them the first extent
 * @memory: in which @words is
 * @nr_cpus: of the heap when they were made
 * @used: a chunk was put into a list
 * @moved: bytes that collections and trims have taken from a level's lists; this and the next two
 *	under the lock of the threads
 * @collections: their number
 * @trimmed: bytes that were returned to the system
 * @returns: grows whenever memory was returned to the books
 * @trimmed_at: when a region's close began the last trim
 * @resets: for trims at resets
 */
struct hab_lists {
	u64 *words;
	void *memory;
	u32 nr_cpus;
	bool used;
	u64 moved[HAB_STATS_LEVELS];
	u64 collections;
	u64 trimmed;
	u64 returns;
	u32 trimmed_at;
	/**
	 * @resets: under the lock of the threads
	 * @since: when the second began in which the last reset was; times in ticks
	 * @returned: when one returned memory
	 * @before: most bytes of the arena that were in use at resets in the second with resets
	 *	before that
	 * @most: the same in that second, but for the last reset
	 * @last: at the last reset
	 * @touched: bytes of the arena that may have memory
	 */
	struct {
		u32 since;
		u32 returned;
		u64 before;
		u64 most;
		u64 last;
		u64 touched;
	} resets;
};

static inline size_t hab_lists_words(u32 nr_cpus)
{
	return (nr_cpus + 1ul) * HAB_CLASSES + 1;
}

/* The first chunk of a list. Extents have one list, whatever their home. */
static inline u64 *hab_lists_word(const struct hab_lists *lists, u32 home, u32 class)
{
	if (class == HAB_CLASS_NONE)
		home = lists->nr_cpus;
	return &lists->words[(size_t)home * HAB_CLASSES + class];
}

/* Puts the chain from @first to @last, which belongs there, into a list. */
void hab_lists_push(u64 *word, struct hab_free_chunk *first, struct hab_free_chunk *last);

/* From the list of the CPU that the thread is on; NULL if there is none. */
struct hab_free_chunk *hab_lists_pop_own(struct hab_heap *heap, struct hab_thread *thread,
					 u32 class);

/* The chain in the order of addresses. */
u64 hab_chain_sort(u64 first);

/* The bytes of the chunks from @chunk on that adjoin; @last is set to the last one. */
u64 hab_chain_extent(struct hab_free_chunk *chunk, struct hab_free_chunk **last);

/* Adds what leaves the lists, by level, for the chunks from @first to @last. */
void hab_chain_count(u64 *moved, const struct hab_free_chunk *first,
		     const struct hab_free_chunk *last);

#endif /* HAB_LIB_ALLOC_LISTS_STATE_H */
