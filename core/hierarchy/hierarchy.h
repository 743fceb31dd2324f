/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The books of a heap: which block of the arena belongs to which buffer.
 *
 * A refill has two steps, with the one visible store between them: hab_hierarchy_plan() computes
 * everything and changes nothing; the caller exchanges the user's word for plan->word;
 * hab_hierarchy_commit() writes the books with the word that was found. A caller that was moved to
 * another CPU in between drops the plan.
 *
 * Callers hold one lock per heap from plan to commit, and for everything else here. All quantities
 * are granules unless a name says bytes.
 */
#ifndef HAB_CORE_HIERARCHY_H
#define HAB_CORE_HIERARCHY_H

#include "core/os.h"
#include "core/hierarchy/free_extents.h"
#include "uapi/hab.h"

/*
 * Work on all domains has steps, so that the lock is held for a bounded time on a machine of any
 * size. A step looks at so many buffers or segments at most, and ends at the first one whose memory
 * becomes free, which walks the free extents. Between the steps of one such function the caller may
 * release the lock.
 */
#ifndef HAB_STEP_BUFFERS /* explored tests have fewer */
#define HAB_STEP_BUFFERS 64u
#endif

/**
 * struct hab_buffer - a buffer's block
 * @top: where its free memory begins; for the lowest level, whose word has that, behind the last
 *	chunk of the block that a refill has granted
 * @end: where it ends
 * @size: nominal size of the last block; this and the next two for growing levels only
 * @filled_at: when it was granted
 * @took: how long that refill took
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
 * @next: granules below this were carved from the arena
 * @free_extents: carved and free again; they belong to no domain
 * @waste: dropped free extents that callers gave back, less what was recovered
 * @dropped: all dropped free extents since the heap was made
 * @returned: given back by callers
 * @direct_grants: requests served straight from the heap
 * @direct: their sum
 * @nr_levels: levels in use
 * @nr_domains: domain ids are below this, at every level
 * @words: the lowest level's words, HAB_WORD_STRIDE bytes apart; users write them
 * @refills: refills since the heap was made
 * @refilled: their sum
 * @resets: resets since the heap was made
 * @resetting: between two steps of a reset
 * @invalid_words: words found that were not granted
 * @levels: from the one next to the heap down
 */
struct hab_hierarchy {
	u64 arena;
	u64 next;
	struct hab_free_extents free_extents;
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
	bool resetting;
	u64 invalid_words;
	struct hab_hierarchy_level levels[HAB_MAX_LEVELS];
};

/**
 * struct hab_plan - a refill that is not yet written to the books
 * @word: the lowest buffer's new word; valid if @replaces_word
 * @replaces_word: false if the request is larger than the lowest buffer
 * @chunk: first granule of the caller's chunk
 * @chunk_size: its size
 * @granted: to the lowest buffer, or straight to the caller
 * @level: 0 heap, else 1 + index of the level the chunk is from
 * @domain: of that buffer, 0 for the heap
 * @nr: levels that serve the request, counted from the heap
 * @highest: the buffers of levels @highest to @nr - 1 change
 * @domains: the CPU's domain at each level
 * @next: new @next of the books
 * @extent: 1 + index of the free extent that serves the request instead, or 0
 * @entered: when the refill began, in nanoseconds
 * @blocks: size of each level's next block
 * @buffers: new state of those buffers
 * @fresh: size of the block that each of them gets, 0 if it keeps its own
 * @retired: true if its old block is retired
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
	u32 extent;
	u64 entered;
	u64 blocks[HAB_MAX_LEVELS];
	struct hab_buffer buffers[HAB_MAX_LEVELS];
	u64 fresh[HAB_MAX_LEVELS];
	bool retired[HAB_MAX_LEVELS];
};

/**
 * hab_hierarchy_check - check sizes and domains
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

/* Sums of what was granted have no bound: bytes end at the largest value, as granules do. */
static inline u64 hab_hierarchy_bytes(u64 granules)
{
	return granules > ~0ull >> HAB_GRANULE_SHIFT ? ~0ull : granules << HAB_GRANULE_SHIFT;
}

/* The word of a domain of the lowest level. */
static inline u64 *hab_hierarchy_word(const struct hab_hierarchy *h, u32 domain)
{
	return &h->words[(u64)domain * (HAB_WORD_STRIDE / sizeof(u64))];
}

/**
 * hab_hierarchy_word_free - granules free in a word
 * @h: the books
 * @domain: the word's domain, below @nr_domains
 * @word: the word
 * @left: set to the granules that are free, 0 if the word is invalid
 *
 * Return: true if the word is valid: it lies within the block that was granted to that buffer.
 */
bool hab_hierarchy_word_free(const struct hab_hierarchy *h, u32 domain, u64 word, u64 *left);

/**
 * hab_hierarchy_growing - true if a level grows, so that refills need the time
 * @h: the books
 */
bool hab_hierarchy_growing(const struct hab_hierarchy *h);

/**
 * hab_hierarchy_plan - find the memory for a refill
 * @h: the books
 * @domains: the CPU's domain at each level, each below @nr_domains; NULL: straight from the heap,
 *	which belongs to no domain
 * @least: smallest chunk that serves, at least 1
 * @want: requested size of the chunk, at least @least
 * @entered: when the refill began, before it waited for the lock, in nanoseconds; any value unless
 *	hab_hierarchy_growing()
 * @plan: the result
 *
 * A request above a level's buffer size goes to the next level up (the paper's Listing 1). A buffer
 * that still has @least serves; one that has less is retired, and its memory becomes a free extent.
 * Free extents that hold a good part of @want serve before new memory is carved, and all others
 * before the heap is full.
 *
 * Return: 0, or -ENOMEM if all that is free is in other buffers, see hab_hierarchy_collect().
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
 * hab_hierarchy_collect - the heap is full: retire buffers, and recover waste
 * @h: the books
 * @at: 0 for the first step, then as the step before left it
 *
 * What the buffers had left becomes free extents. The lowest buffers of a single CPU stay as they
 * are: their words can only be emptied on that CPU, see hab_hierarchy_retire(). Then each segment
 * of the arena of which all is waste or free becomes free. After each step a refill may succeed.
 *
 * Return: true if a step was done; false if there is none left: the heap is full.
 */
bool hab_hierarchy_collect(struct hab_hierarchy *h, u32 *at);

/**
 * hab_hierarchy_return - take memory back from a caller
 * @h: the books
 * @start: first granule
 * @size: how many
 *
 * It becomes a free extent. The books cannot check that it was the caller's: a caller that returns
 * other memory gets its own memory twice.
 *
 * Return: 0, or -EINVAL if it is empty, was not carved since the last reset, or shares a granule
 * with a free extent. Memory that is waste, or still in a buffer, is not noticed.
 */
int hab_hierarchy_return(struct hab_hierarchy *h, u64 start, u64 size);

/**
 * hab_hierarchy_retire - retire a buffer that no CPU takes from now
 * @h: the books
 * @level: index of the level
 * @domain: the buffer's domain
 *
 * Its unused memory becomes a free extent. For the lowest level the caller makes sure that
 * meanwhile the word is moved only by cmpxchg, which then fails: the buffer is shared, its CPUs are
 * offline, or the caller runs on its CPU and cannot be preempted.
 */
void hab_hierarchy_retire(struct hab_hierarchy *h, u32 level, u32 domain);

/* The same for a buffer of the lowest level whose word the caller has emptied; it was @word. */
void hab_hierarchy_retire_word(struct hab_hierarchy *h, u32 domain, u64 word);

/**
 * hab_hierarchy_reset - drop every grant and empty every word, in steps
 * @h: the books
 * @at: 0 for the first step, then as the step before left it
 *
 * The caller of the heap's reset has stopped all threads. One that still takes a chunk may get
 * memory twice; the books stay valid: between the steps hab_hierarchy_refill() is -EAGAIN,
 * hab_hierarchy_return() is -EINVAL, and no buffer is retired. One reset runs at a time, to its
 * end.
 *
 * Return: true if there are more steps.
 */
bool hab_hierarchy_reset(struct hab_hierarchy *h, u32 *at);

/**
 * hab_hierarchy_stats - the books in bytes, in steps
 * @h: the books
 * @at: 0 for the first step, then as the step before left it
 * @stats: filled in but for its @size and @flags
 *
 * While no thread takes chunks and no buffer is retired, the arena is the sum of every level's
 * waste and free bytes and of the chunks that were taken and not returned.
 *
 * Return: true if there are more steps.
 */
bool hab_hierarchy_stats(const struct hab_hierarchy *h, u32 *at, struct hab_ioc_stats *stats);

#endif /* HAB_CORE_HIERARCHY_H */
