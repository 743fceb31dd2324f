// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Trimming, see trim.h.
 */
#include <errno.h>

#include "lib/alloc/lists.h"
#include "lib/alloc/lists_state.h"
#include "lib/alloc/registry.h"
#include "lib/alloc/trim.h"
#include "lib/backend/arena.h"
#include "lib/clock.h"
#include "inside/sandbox.h"

/* A reset returns no less, because one use is not as large as the other. */
#define RESET_LEAST (2ul << 20)

/* Ticks of 17 ms, and a second of them. */
#define TICK_SHIFT 24
#define TICKS	   58

/* Explored tests have their own time. */
#ifndef HAB_TRIM_CLOCK
#define HAB_TRIM_CLOCK hab_clock_coarse_ns
#endif

u32 hab_trim_now(void)
{
	u32 tick = HAB_TRIM_CLOCK() >> TICK_SHIFT;

	return tick ? tick : 1;
}

/* Others may have written @then since @now was read. */
static bool is_second_before(u32 then, u32 now)
{
	return (int32_t)(now - then) >= TICKS;
}

/* Not used for a second, or longer. */
static bool is_old(const struct hab_free_chunk *chunk, u32 now)
{
	u32 freed_at = READ_ONCE(chunk->freed_at);

	return freed_at == HAB_TRIMMED || is_second_before(freed_at, now);
}

/* --- chunks that were not used -------------------------------------------------------- */

/* Puts chunks back, each into the list of its home, which it has left through that CPU. */
static void put_back(struct hab_heap *heap, struct hab_free_chunk *first)
{
	struct hab_free_chunk *last, *next;

	for (; first; first = next) {
		for (last = first; (next = hab_free_chunk_at(last->next)); last = next) {
			if (next->home != first->home || next->class != first->class)
				break;
		}
		hab_lists_put(heap, first, last);
	}
}

/* Adds the old chunks of the CPU that the thread is on to @old, which is returned. */
static u64 cut_own(struct hab_heap *heap, struct hab_thread *thread, u32 class, u32 now, u64 old)
{
	struct hab_free_chunk *chunk;
	u64 kept = 0, *end = &kept;

	while ((chunk = hab_lists_pop_own(heap, thread, class))) {
		if (is_old(chunk, now)) {
			chunk->next = old;
			old = (uintptr_t)chunk;
			continue;
		}
		*end = (uintptr_t)chunk;
		end = &chunk->next;
		*end = 0;
	}
	put_back(heap, hab_free_chunk_at(kept));
	return old;
}

/*
 * The old chunks of a list that this thread does not pop from: all of them or none, and they are
 * the heap's from now on. Of the heap's own list: those that are old, because only who has the lock
 * of the threads pops there.
 */
static u64 cut_other_locked(struct hab_lists *lists, u32 home, u32 class, u32 now, u64 old)
{
	u64 *word = hab_lists_word(lists, home, class), first = READ_ONCE(*word), next;
	struct hab_free_chunk *chunk, *recent = NULL, *last = NULL;

	if (!first || (home != lists->nr_cpus && !is_old(hab_free_chunk_at(first), now)))
		return old;
	/* Pairs with the cmpxchg in hab_lists_push(). */
	for (first = hab_word_exchange(word, 0); first; first = next) {
		chunk = hab_free_chunk_at(first);
		next = chunk->next;
		lists->moved[chunk->level] += chunk->bytes;
		lists->moved[0] -= chunk->bytes;
		chunk->level = 0;
		chunk->home = lists->nr_cpus;
		if (is_old(chunk, now)) {
			chunk->next = old;
			old = first;
		} else if (recent) {
			last->next = first;
			last = chunk;
		} else {
			recent = last = chunk;
		}
	}
	if (recent)
		hab_lists_push(hab_lists_word(lists, lists->nr_cpus, class), recent, last);
	return old;
}

/* All chunks that were not used for a second: a chain, in no order. */
static u64 cut_lists(struct hab_heap *heap, struct hab_thread *thread, u32 now)
{
	struct hab_lists *lists = heap->lists;
	u32 home, class;
	u64 old = 0;

	for (class = 0; thread && thread->sections && class < HAB_CLASSES; class++)
		old = cut_own(heap, thread, class, now, old);
	hab_thread_lock();
	for (home = 0; home <= lists->nr_cpus; home++) {
		for (class = 0; class < HAB_CLASSES; class++)
			old = cut_other_locked(lists, home, class, now, old);
	}
	old = cut_other_locked(lists, lists->nr_cpus, HAB_CLASS_NONE, now, old);
	hab_thread_unlock();
	return old;
}

/* --- extents -------------------------------------------------------------------------- */

/* The chunks from @first to @last adjoin, and become one extent of the heap's. */
static void join(struct hab_lists *lists, struct hab_free_chunk *first,
		 const struct hab_free_chunk *last, u64 bytes, u64 *moved)
{
	hab_chain_count(moved, first, last);
	moved[0] -= bytes;
	first->home = lists->nr_cpus;
	first->class = HAB_CLASS_NONE;
	first->level = 0;
	first->bytes = bytes;
}

/* What make_extents() has done. */
struct made {
	u64 moved[HAB_STATS_LEVELS]; /* as in struct hab_lists */
	u64 trimmed;
	u32 returns;
	struct hab_free_chunk *first, *last; /* extents for their list */
};

/*
 * An extent goes back to the books if it is large: they keep few, and what they drop is waste until
 * all of its segment is free.
 */
static bool return_extent(struct hab_heap *heap, struct hab_free_chunk *extent, struct made *made)
{
	u64 offset = (char *)extent - heap->arena, bytes = extent->bytes;
	u32 level = extent->level;

	if (extent->freed_at != HAB_TRIMMED || made->returns == HAB_RETURNS_AT_ONCE ||
	    bytes < HAB_LEAST_RETURN(heap->arena_bytes) ||
	    heap->backend->give_back(heap, offset, bytes))
		return false;
	made->moved[level] += bytes;
	made->returns++;
	return true;
}

static void keep_extent(struct hab_free_chunk *extent, struct made *made)
{
	extent->next = (uintptr_t)made->first;
	made->first = extent;
	if (!made->last)
		made->last = extent;
}

/* Before the extents are in the list, so that the statistics never have more than there is. */
static void count_made(struct hab_lists *lists, const struct made *made)
{
	u32 level;

	hab_thread_lock();
	for (level = 0; level < HAB_STATS_LEVELS; level++)
		lists->moved[level] += made->moved[level];
	lists->trimmed += made->trimmed;
	WRITE_ONCE(lists->returns, lists->returns + made->returns);
	hab_thread_unlock();
}

/*
 * Makes extents of an ordered chain of chunks, and returns the memory of at most @calls of them to
 * the system; chunks that are in no extent go back into lists.
 */
static void make_extents(struct hab_heap *heap, u64 chain, u32 calls, u32 now)
{
	struct hab_free_chunk *first, *last;
	struct made made = { 0 };
	u64 bytes, next, trimmed;

	for (; chain; chain = next) {
		first = hab_free_chunk_at(chain);
		bytes = hab_chain_extent(first, &last);
		next = last->next;
		last->next = 0;
		if (bytes < HAB_LEAST_EXTENT) {
			put_back(heap, first);
			continue;
		}
		if (first != last || first->freed_at != HAB_TRIMMED) {
			join(heap->lists, first, last, bytes, made.moved);
			trimmed = calls ? hab_arena_trim(first + 1, (char *)first + bytes) : 0;
			calls -= !!calls;
			made.trimmed += trimmed;
			first->freed_at = trimmed ? HAB_TRIMMED : now - TICKS;
		}
		if (!return_extent(heap, first, &made))
			keep_extent(first, &made);
	}
	count_made(heap->lists, &made);
	if (made.first)
		hab_lists_push(hab_lists_word(heap->lists, 0, HAB_CLASS_NONE), made.first,
			       made.last);
}

void hab_trim(struct hab_heap *heap, struct hab_thread *thread, u32 now, u32 calls)
{
	make_extents(heap, hab_chain_sort(cut_lists(heap, thread, now)), calls, now);
}

bool hab_trim_look(struct hab_heap *heap, struct hab_thread *thread)
{
	struct hab_lists *lists = heap->lists;
	u32 now;

	now = hab_trim_now();
	if (READ_ONCE(heap->now) != now)
		WRITE_ONCE(heap->now, now);
	/* A filter of system calls may end the process. A child has lists of its own soon. */
	if (!is_second_before(READ_ONCE(lists->trimmed_at), now) ||
	    (heap->flags & HAB_HEAP_NO_TRIM) || hab_sandbox_is_entered() || hab_forked() ||
	    !hab_collect_trylock())
		return false;
	if (is_second_before(lists->trimmed_at, now)) {
		WRITE_ONCE(lists->trimmed_at, now);
		hab_trim(heap, thread, now, HAB_TRIM_CALLS);
	}
	hab_collect_unlock();
	return true;
}

int hab_heap_trim(struct hab_heap *heap)
{
	struct hab_thread *thread;
	u32 now;

	if (!heap)
		return -EINVAL;
	hab_registry_notice_child();
	thread = hab_thread_get(heap);
	hab_collect_lock();
	now = hab_trim_now();
	WRITE_ONCE(heap->now, now);
	hab_trim(heap, thread, now, UINT32_MAX);
	hab_collect_unlock();
	return 0;
}

/* --- resets --------------------------------------------------------------------------- */

u64 hab_trim_reset_locked(struct hab_heap *heap, u64 used, u64 *from)
{
	struct hab_lists *lists = heap->lists;
	u32 now = hab_trim_now();
	u64 end;

	/* The last reset counts from now on; at the first one nothing is known. */
	lists->resets.most = max(lists->resets.most, lists->resets.last);
	if (!lists->resets.touched)
		lists->resets.most = used;
	if (is_second_before(lists->resets.since, now)) {
		lists->resets.since = now;
		lists->resets.before = lists->resets.most;
		lists->resets.most = 0;
	}
	lists->resets.last = used;
	end = lists->resets.touched = max(lists->resets.touched, used);
	*from = max(lists->resets.before, lists->resets.most) + RESET_LEAST;
	if (end <= *from || !is_second_before(lists->resets.returned, now) ||
	    hab_sandbox_is_entered())
		return *from;
	lists->resets.returned = now;
	lists->resets.touched = *from;
	return end;
}

void hab_trim_range(struct hab_heap *heap, u64 from, u64 to)
{
	u64 trimmed = hab_arena_trim(heap->arena + from, heap->arena + to);

	if (!trimmed)
		return;
	hab_thread_lock();
	heap->lists->trimmed += trimmed;
	hab_thread_unlock();
}
