/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Which block of the arena goes to which buffer: the books of one heap.
 *
 * A refill has two steps, so that the caller can put the one visible store
 * between them: hab_hierarchy_plan() computes everything and changes nothing,
 * then the caller exchanges the user's word for plan->word, then
 * hab_hierarchy_commit() writes the books with the word that it found. A caller
 * that finds itself on another CPU in between just drops the plan.
 *
 * Callers serialise plan to commit, and everything else here, with one lock a
 * heap. All quantities are granules unless a name says bytes.
 */
#ifndef HAB_CORE_HIERARCHY_H
#define HAB_CORE_HIERARCHY_H

#include "core/os.h"
#include "core/hierarchy/free_extents.h"
#include "uapi/hab.h"

/*
 * A growing level's blocks double while they last for less than so many times what a refill
 * takes, on this machine at this moment, its waiting included. Larger blocks would save no
 * more time and lie idle longer.
 */
#define HAB_GROW_BELOW 256u

/*
 * They may be so many times the level's size while all of the arena is free, and never more
 * than one of so many parts of what is free, so that a few that lie idle are not missed.
 */
#define HAB_GROW_GUIDED 4u
#define HAB_GROW_PARTS	16u

/*
 * A buffer's block. @top is exact for upper levels; the lowest level's is in its word.
 * The others are of the last block and kept for growing levels only: its size, when the
 * refill was done, and how long that took.
 */
struct hab_buffer {
	u64 top;
	u64 end;
	u64 size;
	u64 filled_at;
	u64 took;
};

struct hab_hierarchy_level {
	u64 size;
	u32 kind;
	bool growing;
	struct hab_buffer *buffers; /* nr_domains of them */
	u64 refills;
	u64 granted;
	u64 waste;
};

/**
 * struct hab_hierarchy - the books of a heap
 * @arena: size of the arena
 * @next: what lies below was carved from the pool
 * @rests: what was carved once and is free again; belongs to no domain
 * @waste: what callers gave back and @rests had no room for
 * @dropped: what @rests had no room for since the heap was made, of all levels
 * @returned: what callers gave back
 * @direct_grants: requests served straight from the pool
 * @direct: and their sum
 * @nr_levels: levels in use
 * @nr_domains: domain ids are below this, at every level
 * @words: the lowest level's words, HAB_WORD_STRIDE bytes apart; users write them
 * @refills: refills since the heap was made
 * @refilled: and their sum, in granules
 * @resets: how often hab_hierarchy_reset() ran
 * @invalid_words: words found that were not granted
 * @levels: from the one next to the heap down
 */
struct hab_hierarchy {
	u64 arena;
	u64 next;
	struct hab_free_extents rests;
	u64 waste;
	u64 dropped;
	u64 returned;
	u64 direct_grants;
	u64 direct;
	u32 nr_levels;
	u32 nr_domains;
	u64 *words;
	u64 refills;
	u64 refilled;
	u64 resets;
	u64 invalid_words;
	struct hab_hierarchy_level levels[HAB_MAX_LEVELS];
};

/**
 * struct hab_plan - a refill that has not happened yet
 * @word: what the lowest buffer's word becomes; valid if @replaces_word
 * @replaces_word: false if the request goes past the lowest buffer
 * @chunk: first granule of the caller's chunk
 * @chunk_size: its size
 * @granted: to the lowest buffer, or straight to the caller
 * @level: 0 heap, else 1 + index of the level the chunk is from
 * @domain: of that buffer, 0 for the heap
 * @nr: levels the request is served by, counted from the heap
 * @highest: the buffers of levels @highest to @nr - 1 change
 * @domains: the CPU's domain at each level
 * @next: the pool's new @next
 * @rest: 1 + index of the rest that serves instead of all that, or 0
 * @entered: when the refill began, in nanoseconds
 * @blocks: how large a block each level's buffer wants
 * @buffers: new state of those buffers
 * @fresh: size of the block that each of them gets, 0 if it keeps its own
 * @retired: what is left in the block it had before is given up
 */
struct hab_plan {
	u64 word;
	bool replaces_word;
	u64 chunk;
	u64 chunk_size;
	u64 granted;
	u32 level;
	u32 domain;
	int nr;
	int highest;
	u32 domains[HAB_MAX_LEVELS];
	u64 next;
	u32 rest;
	u64 entered;
	u64 blocks[HAB_MAX_LEVELS];
	struct hab_buffer buffers[HAB_MAX_LEVELS];
	u64 fresh[HAB_MAX_LEVELS];
	bool retired[HAB_MAX_LEVELS];
};

/**
 * hab_hierarchy_check - are these sizes and domains a hierarchy?
 * @arena_bytes: size of the arena
 * @nr_levels: how many levels
 * @levels: from the one next to the heap to the one next to the TLABs
 *
 * Return: 0; -EINVAL for a size that is 0, no multiple of HAB_GRANULE, outside
 * HAB_BUFFER_MIN..MAX or above the level before it (or the arena), for an
 * unknown domain, an unknown flag, no or too many levels, and an arena
 * below HAB_ARENA_MIN; -ENOMEM for an arena above HAB_ARENA_MAX.
 */
int hab_hierarchy_check(u64 arena_bytes, u32 nr_levels, const struct hab_level *levels);

/**
 * hab_hierarchy_init - start the books of an empty heap
 * @h: zeroed; the caller has set @words and every level's @buffers, zeroed
 * @arena_bytes: size of the arena
 * @nr_levels: how many levels
 * @levels: as checked by hab_hierarchy_check()
 * @nr_domains: length of each of those arrays
 */
void hab_hierarchy_init(struct hab_hierarchy *h, u64 arena_bytes, u32 nr_levels,
			const struct hab_level *levels, u32 nr_domains);

/* The word of a domain of the lowest level. */
static inline u64 *hab_hierarchy_word(const struct hab_hierarchy *h, u32 domain)
{
	return &h->words[(u64)domain * (HAB_WORD_STRIDE / sizeof(u64))];
}

/**
 * hab_hierarchy_word_free - what a word says is left, if it can be believed
 * @h: the books
 * @domain: whose word it is, below @nr_domains
 * @word: the word
 * @rest: set to the granules left, 0 if the word is not to be believed
 *
 * Return: true if the word lies within what was granted to that buffer.
 */
bool hab_hierarchy_word_free(const struct hab_hierarchy *h, u32 domain, u64 word, u64 *rest);

/**
 * hab_hierarchy_growing - do refills need to know the time?
 * @h: the books
 */
bool hab_hierarchy_growing(const struct hab_hierarchy *h);

/**
 * hab_hierarchy_plan - find the memory for a refill, granting nothing
 * @h: the books
 * @domains: the CPU's domain at each level, each below @nr_domains; NULL to be
 *	served straight from the pool, which belongs to no domain
 * @least: smallest chunk that serves, at least 1
 * @want: chunk asked for, at least @least
 * @entered: when the refill began, before it waited for the lock, by a clock in
 *	nanoseconds; 0 will do unless hab_hierarchy_growing()
 * @plan: the result
 *
 * A request above a level's buffer size goes to the next level up (the paper's
 * Listing 1). A rest that still serves @least is used before a buffer is
 * refilled; a smaller one is given up and joins the heap's rests, of which those that
 * hold a good part of @want serve before new memory is carved, and all serve before
 * the heap is full. What other buffers have left joins them then, too, but for those
 * that are a single CPU's.
 *
 * Return: 0, or -ENOMEM if the arena is used up but for what other CPUs' own buffers have.
 */
int hab_hierarchy_plan(struct hab_hierarchy *h, const u32 *domains, u64 least, u64 want,
		       u64 entered, struct hab_plan *plan);

/**
 * hab_hierarchy_commit - write a plan into the books
 * @h: the books, unchanged since hab_hierarchy_plan()
 * @plan: the plan
 * @old_word: the word that plan->word replaced; ignored unless @replaces_word
 * @now: by the clock of plan->entered
 */
void hab_hierarchy_commit(struct hab_hierarchy *h, const struct hab_plan *plan, u64 old_word,
			  u64 now);

/**
 * hab_hierarchy_return - a caller gives memory back
 * @h: the books
 * @start: first granule
 * @size: how many
 *
 * It becomes one of the heap's rests. Whether it was the caller's cannot be known;
 * one who lies hands out his own memory twice.
 *
 * Return: 0, or -EINVAL if it is empty, was never carved, or is a rest already.
 */
int hab_hierarchy_return(struct hab_hierarchy *h, u64 start, u64 size);

/**
 * hab_hierarchy_retire - the last CPU of a domain goes
 * @h: the books
 * @level: index of the level
 * @domain: whose buffer
 *
 * What is left in that buffer joins the heap's rests. For the lowest level the caller
 * sees to it that nobody moves the word meanwhile but by cmpxchg, which then fails.
 */
void hab_hierarchy_retire(struct hab_hierarchy *h, u32 level, u32 domain);

/* The same for a domain of the lowest level whose word the caller has emptied: it was @word. */
void hab_hierarchy_retire_word(struct hab_hierarchy *h, u32 domain, u64 word);

/**
 * hab_hierarchy_reset - forget every grant and empty every word
 * @h: the books
 *
 * Threads that are taking chunks meanwhile may keep using dead ones: the caller
 * of the heap's reset has stopped them. The books survive it either way.
 */
void hab_hierarchy_reset(struct hab_hierarchy *h);

/**
 * hab_hierarchy_stats - the books in bytes
 * @h: the books
 * @stats: filled in but for its @size and @flags
 *
 * With no thread taking chunks, the arena is the sum of every level's waste and free
 * bytes and of the chunks handed out and not returned.
 */
void hab_hierarchy_stats(const struct hab_hierarchy *h, struct hab_ioc_stats *stats);

#endif /* HAB_CORE_HIERARCHY_H */
