// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Lists of free chunks, see lists.h.
 *
 * A thread that cannot run sections takes from the heap's lists alone, under a lock, and its chunks
 * are at home there.
 */
#include <errno.h>
#include <stdlib.h>

#include "lib/alloc/lists.h"
#include "lib/thread.h"
#include "lib/rseq/rseq.h"

#ifndef HAB_INJECT_BEFORE_SECTION
#define HAB_INJECT_BEFORE_SECTION()
#endif

/* Four classes a doubling begin above this size. */
#define CLASS_BASE_SHIFT 13

#define CACHE_LINE	 64

/* The most extents that one collection returns while regions are open. */
#define EXTENTS_AT_ONCE 32

_Static_assert(offsetof(struct hab_free_chunk, next) == 0, "sections follow the first 8 bytes");
_Static_assert(sizeof(struct hab_free_chunk) % 16 == 0, "objects begin aligned behind it");

/**
 * struct hab_lists - the free chunks of a heap
 * @words: first chunks, by home and class; the last home is the heap
 * @memory: in which @words is
 * @nr_cpus: of the heap when they were made
 * @used: a chunk was put into a list
 * @moved: bytes that collections have taken from a level's lists; this and the next under the lock
 *	of the threads
 * @collections: their number
 * @returns: collections that have returned memory to the books
 */
struct hab_lists {
	u64 *words;
	void *memory;
	u32 nr_cpus;
	bool used;
	u64 moved[HAB_STATS_LEVELS];
	u64 collections;
	u64 returns;
};

static u64 *word_of(const struct hab_lists *lists, u32 home, u32 class)
{
	return &lists->words[(size_t)home * HAB_CLASSES + class];
}

u32 hab_lists_heap_home(const struct hab_heap *heap)
{
	return heap->lists->nr_cpus;
}

/* --- size classes --------------------------------------------------------------------- */

u64 hab_class_bytes(u32 class)
{
	u32 step = class - 1;

	if (class == HAB_CLASS_FIRST)
		return HAB_FIRST_CHUNK_BYTES;
	if (class == HAB_CLASS_NEXT)
		return HAB_NEXT_CHUNK_BYTES;
	return (4ull + step % 4) << (CLASS_BASE_SHIFT - 2 + step / 4);
}

u32 hab_class_of(u64 bytes)
{
	u32 shift, class;

	if (bytes <= hab_class_bytes(2))
		return 2;
	shift = 61 - __builtin_clzll(bytes - 1);
	class = 4 * (shift - (CLASS_BASE_SHIFT - 2)) + (u32)((bytes - 1) >> shift) - 2;
	if (class >= HAB_CLASSES)
		return HAB_CLASS_NONE;
	return hab_class_bytes(class) == HAB_NEXT_CHUNK_BYTES ? HAB_CLASS_NEXT : class;
}

/* --- put and take --------------------------------------------------------------------- */

static void push(u64 *word, struct hab_free_chunk *first, struct hab_free_chunk *last)
{
	u64 old = READ_ONCE(*word), found;

	for (;;) {
		WRITE_ONCE(last->next, old);
		/* Pairs with the commit of a pop, and with the exchange in take_all(). */
		found = hab_word_cmpxchg(word, old, (uintptr_t)first);
		if (found == old)
			return;
		old = found;
	}
}

void hab_lists_put(struct hab_heap *heap, struct hab_free_chunk *first, struct hab_free_chunk *last)
{
	struct hab_lists *lists = heap->lists;

	if (!READ_ONCE(lists->used))
		WRITE_ONCE(lists->used, true);
	push(word_of(lists, first->home, first->class), first, last);
}

/* Not inline: gcc 12 mixes up the outputs of two sections in one function. */
__attribute__((noinline)) static enum hab_rseq_result
pop_verify(hab_tls_rseq *area, u32 cpu, u64 *word, struct hab_rseq_out *out)
{
	return hab_rseq_list_pop_verify(area, cpu, word, 0, out);
}

/* From the list of the CPU that the thread is on. */
static struct hab_free_chunk *pop_own(struct hab_heap *heap, struct hab_thread *thread, u32 class)
{
	hab_tls_rseq *area = hab_tls_rseq_at(heap->rseq_offset);
	struct hab_free_chunk *chunk;
	enum hab_rseq_result result;
	struct hab_rseq_out out;
	u64 *word;
	u32 cpu, tries = 0;

	do {
		cpu = hab_rseq_cpu(area);
		if (cpu >= heap->nr_cpus)
			return NULL;
		word = word_of(heap->lists, cpu, class);
		HAB_INJECT_BEFORE_SECTION();
		result = heap->verify ? pop_verify(area, cpu, word, &out) :
					hab_rseq_list_pop(area, cpu, word, 0, &out);
		thread->counters.restarts += result == HAB_RSEQ_RESTART;
		thread->counters.conflicts += result == HAB_RSEQ_CONFLICT;
	} while ((result == HAB_RSEQ_RESTART || result == HAB_RSEQ_CONFLICT) &&
		 ++tries < HAB_RSEQ_TRIES);
	if (result != HAB_RSEQ_DONE)
		return NULL;
	chunk = hab_free_chunk_at(out.old);
	if (heap->verify) {
		thread->counters.verified++;
		thread->counters.foreign += out.hardware_cpu != chunk->home;
	}
	return chunk;
}

/* All that pop from the heap's lists hold the lock, so there is no ABA. */
static struct hab_free_chunk *pop_from_heap(struct hab_lists *lists, u32 class)
{
	u64 *word = word_of(lists, lists->nr_cpus, class), old, found;

	if (!READ_ONCE(*word))
		return NULL;
	hab_thread_lock();
	/* Pairs with the cmpxchg in push(). */
	for (old = hab_load_acquire(word); old; old = found) {
		found = hab_word_cmpxchg(word, old, READ_ONCE(hab_free_chunk_at(old)->next));
		if (found == old)
			break;
	}
	hab_thread_unlock();
	return hab_free_chunk_at(old);
}

struct hab_free_chunk *hab_lists_take(struct hab_heap *heap, struct hab_thread *thread, u32 class)
{
	struct hab_free_chunk *chunk = NULL;

	if (thread->sections)
		chunk = pop_own(heap, thread, class);
	if (!chunk)
		chunk = pop_from_heap(heap->lists, class);
	return chunk;
}

/* --- collection ----------------------------------------------------------------------- */

/* Empties all lists: a chain of their chunks, or 0. */
static u64 take_all(struct hab_lists *lists)
{
	size_t i, nr = (size_t)(lists->nr_cpus + 1) * HAB_CLASSES;
	struct hab_free_chunk *last;
	u64 first, all = 0;

	for (i = 0; i < nr; i++) {
		/* Most are empty, and a load leaves the cache line shared. */
		first = READ_ONCE(lists->words[i]);
		if (first)
			/* Pairs with the cmpxchg in push(). */
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

/* The chain in the order of addresses. Merge sort: sorted[i] has 2^i chunks, or none. */
static u64 sort(u64 first)
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

/* The size of the extent that begins at @chunk; @last is set to its last chunk. */
static u64 extent_at(struct hab_free_chunk *chunk, struct hab_free_chunk **last)
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
		bytes = extent_at(hab_free_chunk_at(chain), &last);
		most = bytes > most ? bytes : most;
	}
	return most;
}

/* The chunks from @first to @last leave their lists. */
static void count_moved(struct hab_lists *lists, const struct hab_free_chunk *first,
			const struct hab_free_chunk *last)
{
	lists->moved[first->level] += first->bytes;
	while (first != last) {
		first = hab_free_chunk_at(first->next);
		lists->moved[first->level] += first->bytes;
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
		push(word_of(lists, lists->nr_cpus, first->class), first, first);
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
		bytes = extent_at(first, &last);
		next = last->next;
		count_moved(heap->lists, first, last);
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
	u64 chain = sort(take_all(lists)), half;
	bool returned;

	if (!chain)
		return false;
	lists->collections++;
	if (all_closed_locked(heap)) {
		returned = return_extents(heap, chain, 0, UINT32_MAX);
	} else {
		half = largest_extent(chain) / 2;
		returned = return_extents(heap, chain, max(least, half), EXTENTS_AT_ONCE);
	}
	WRITE_ONCE(lists->returns, lists->returns + returned);
	return returned;
}

bool hab_lists_collect(struct hab_heap *heap, u64 least)
{
	struct hab_lists *lists = heap->lists;
	u64 before = READ_ONCE(lists->returns);
	bool returned;

	if (!READ_ONCE(lists->used))
		return false;
	hab_thread_lock();
	/* Another thread may have returned memory while this one waited. */
	returned = lists->returns != before || collect_locked(heap, least);
	hab_thread_unlock();
	return returned;
}

/* --- creation and reset --------------------------------------------------------------- */

int hab_lists_create(struct hab_heap *heap)
{
	size_t nr = ((size_t)heap->nr_cpus + 1) * HAB_CLASSES;
	struct hab_lists *lists = calloc(1, sizeof(*lists));

	if (!lists)
		return -ENOMEM;
	/* Most CPU numbers may be of CPUs that are not there: calloc() touches no page. */
	lists->memory = calloc(1, nr * sizeof(u64) + CACHE_LINE);
	if (!lists->memory) {
		free(lists);
		return -ENOMEM;
	}
	lists->words =
		(u64 *)(((uintptr_t)lists->memory + CACHE_LINE - 1) & -(uintptr_t)CACHE_LINE);
	lists->nr_cpus = heap->nr_cpus;
	heap->lists = lists;
	return 0;
}

static void free_lists(struct hab_lists *lists)
{
	free(lists->memory);
	free(lists);
}

void hab_lists_destroy(struct hab_heap *heap)
{
	free_lists(heap->lists);
}

void hab_lists_reset_locked(struct hab_heap *heap)
{
	struct hab_lists *lists = heap->lists;
	struct hab_thread *thread;
	u32 level;

	heap->lives++;
	if (lists->used)
		memset(lists->words, 0, (lists->nr_cpus + 1ul) * HAB_CLASSES * sizeof(u64));
	heap->exited.open_chunks = 0;
	for (thread = heap->threads; thread; thread = thread->next)
		thread->counters.open_chunks = 0;
	for (level = 0; level < HAB_STATS_LEVELS; level++) {
		lists->moved[level] = heap->exited.free_bytes[level];
		for (thread = heap->threads; thread; thread = thread->next)
			lists->moved[level] += thread->counters.free_bytes[level];
	}
}

void hab_lists_reopen_locked(struct hab_heap *heap)
{
	struct hab_lists *before = heap->lists;

	if (heap->nr_cpus > before->nr_cpus) {
		if (hab_lists_create(heap)) {
			/* The other CPUs take every chunk by a refill. */
			heap->nr_cpus = before->nr_cpus;
		} else {
			heap->lists->used = true;
			free_lists(before);
		}
	}
	hab_lists_reset_locked(heap);
}

void hab_lists_stats_locked(const struct hab_heap *heap, struct hab_heap_stats *stats)
{
	u32 level;

	stats->collections = heap->lists->collections;
	for (level = 0; level < HAB_STATS_LEVELS; level++)
		stats->free_chunk_bytes[level] -= heap->lists->moved[level];
}
