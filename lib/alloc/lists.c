// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Lists and inboxes of a heap: their homes, the sections on them, and their collection.
 *
 * A thread that cannot run sections uses the heap's inbox alone.
 */
#include <errno.h>
#include <stdlib.h>

#include "lib/alloc/lists.h"
#include "lib/alloc/thread.h"
#include "lib/rseq/rseq.h"

#ifndef HAB_INJECT_BEFORE_SECTION
#define HAB_INJECT_BEFORE_SECTION()
#endif

/* Four classes a doubling begin above this size. */
#define CLASS_BASE_SHIFT 13

/*
 * The most chunks that a CPU takes from an inbox to its list at once. The others stay in the inbox:
 * other CPUs of the domain may need them.
 */
#define CHUNKS_AT_ONCE 16

#define CACHE_LINE     64

/* The most extents that one collection returns while regions are open. */
#define EXTENTS_AT_ONCE 32

_Static_assert(offsetof(struct hab_free_chunk, next) == 0, "sections follow the first 8 bytes");
_Static_assert(offsetof(struct hab_chunk_chain, last) == 8, "sections read it there");
_Static_assert(sizeof(struct hab_free_chunk) % 16 == 0, "objects begin aligned behind it");

/**
 * struct hab_lists - lists and inboxes of a heap
 * @words: all of them; lists by CPU and class, inboxes by home and class
 * @memory: in which the words are
 * @nr_cpus: of the heap when they were made
 * @used: a chunk was put into a list or an inbox
 * @moved: bytes that a collection has taken from a level's lists; under the lock of the threads
 * @collections: their number; likewise
 */
struct hab_lists {
	struct hab_free_lists words;
	void *memory;
	uint32_t nr_cpus;
	bool used;
	uint64_t moved[HAB_STATS_LEVELS];
	uint64_t collections;
};

/* --- size classes --------------------------------------------------------------------- */

uint64_t hab_class_bytes(uint32_t class)
{
	uint32_t step = class - 1;

	if (class == HAB_CLASS_FIRST)
		return HAB_FIRST_CHUNK_BYTES;
	if (class == HAB_CLASS_NEXT)
		return HAB_NEXT_CHUNK_BYTES;
	return (4ull + step % 4) << (CLASS_BASE_SHIFT - 2 + step / 4);
}

uint32_t hab_class_of(uint64_t bytes)
{
	uint64_t in_steps;
	uint32_t shift, class;

	if (bytes <= hab_class_bytes(2))
		return 2;
	shift = 61 - __builtin_clzll(bytes - 1);
	in_steps = (bytes - 1) >> shift;
	class = 4 * (shift - (CLASS_BASE_SHIFT - 2)) + (uint32_t)(in_steps - 4) + 2;
	if (class >= HAB_CLASSES)
		return HAB_CLASS_NONE;
	return hab_class_bytes(class) == HAB_NEXT_CHUNK_BYTES ? HAB_CLASS_NEXT : class;
}

/* --- homes ---------------------------------------------------------------------------- */

uint32_t hab_lists_home(const struct hab_heap *heap, uint32_t level, uint32_t domain)
{
	return level ? 1 + (level - 1) * heap->lists->nr_cpus + domain : 0;
}

static uint32_t level_of(const struct hab_lists *lists, uint32_t home)
{
	return home ? 1 + (home - 1) / lists->nr_cpus : 0;
}

/* The CPU's home at a level, 0 if its domain is not known yet. */
static uint32_t home_at(const struct hab_heap *heap, uint32_t level, uint32_t cpu)
{
	/* heap->domains is the last row of all levels' rows. */
	const uint32_t *row = heap->domains - (size_t)(heap->nr_levels - level) * heap->nr_cpus;
	uint32_t domain = __atomic_load_n(&row[cpu], __ATOMIC_RELAXED);

	return domain == HAB_DOMAIN_NONE ? 0 : hab_lists_home(heap, level, domain);
}

/* true if the CPU may hand out chunks of @home. */
static bool may_hand_out(const struct hab_heap *heap, uint32_t home, uint32_t cpu)
{
	return !home || home == home_at(heap, level_of(heap->lists, home), cpu);
}

/* The level whose buffers serve requests of @bytes, 0 for the heap. */
static uint32_t serving_level(const struct hab_heap *heap, uint64_t bytes)
{
	uint32_t level = heap->nr_levels;

	while (level && heap->levels[level - 1].bytes < bytes)
		level--;
	return level;
}

static uint64_t *list_of(const struct hab_lists *lists, uint32_t cpu, uint32_t class)
{
	return &lists->words.lists[(size_t)cpu * HAB_CLASSES + class];
}

static uint64_t *inbox_of(const struct hab_lists *lists, uint32_t home, uint32_t class)
{
	return &lists->words.inboxes[(size_t)home * HAB_CLASSES + class];
}

/* --- put ------------------------------------------------------------------------------ */

/* false if the CPU that the thread is on may not hand out chunks of @home. */
static bool put_on_list(struct hab_heap *heap, struct hab_thread *thread, uint32_t home,
			uint32_t class, struct hab_chunk_chain *chain)
{
	hab_tls_rseq *area = hab_tls_rseq_at(heap->rseq_offset);
	enum hab_rseq_result result;
	struct hab_rseq_out out;
	uint32_t cpu;

	do {
		cpu = hab_rseq_cpu(area);
		if (cpu >= heap->nr_cpus || !may_hand_out(heap, home, cpu))
			return false;
		HAB_INJECT_BEFORE_SECTION();
		result = hab_rseq_list_push(area, cpu, list_of(heap->lists, cpu, class),
					    (uintptr_t)chain, &out);
		thread->counters.restarts += result == HAB_RSEQ_RESTART;
	} while (result == HAB_RSEQ_RESTART);
	return result == HAB_RSEQ_DONE;
}

/* The chunks go to the heap's inbox. */
static void leave_domain(struct hab_chunk_chain *chain)
{
	struct hab_free_chunk *chunk = hab_free_chunk_at(chain->first);

	for (;;) {
		chunk->home = 0;
		if ((uintptr_t)chunk == chain->last)
			return;
		chunk = hab_free_chunk_at(chunk->next);
	}
}

static void mark_used(struct hab_lists *lists)
{
	if (!__atomic_load_n(&lists->used, __ATOMIC_RELAXED))
		__atomic_store_n(&lists->used, true, __ATOMIC_RELAXED);
}

void hab_lists_put(struct hab_heap *heap, struct hab_thread *thread, struct hab_chunk_chain *chain,
		   uint64_t bytes)
{
	struct hab_free_chunk *first = hab_free_chunk_at(chain->first);
	uint32_t home = first->home, class = first->class;
	bool own = level_of(heap->lists, home) == (uint32_t)heap->nr_levels && !heap->shared;

	mark_used(heap->lists);
	if (!thread->sections && home) {
		leave_domain(chain);
		home = 0;
	}
	thread->counters.free_bytes[level_of(heap->lists, home)] += bytes;
	if (thread->sections && own && put_on_list(heap, thread, home, class, chain))
		return;
	hab_inbox_push(inbox_of(heap->lists, home, class), chain);
}

/* --- take ----------------------------------------------------------------------------- */

/* Puts the chain @first, which was an inbox's, on this CPU's list and back into the inbox. */
static void keep_others(struct hab_heap *heap, struct hab_thread *thread, uint64_t first,
			uint64_t *inbox)
{
	const struct hab_free_chunk *chunk = hab_free_chunk_at(first);
	struct hab_chunk_chain chain = { .first = first };
	uint64_t rest = hab_chain_cut(&chain, CHUNKS_AT_ONCE);

	if (!thread->sections || !put_on_list(heap, thread, chunk->home, chunk->class, &chain))
		hab_inbox_push(inbox, &chain);
	if (!rest || hab_inbox_fill(inbox, rest))
		return;
	chain.first = rest;
	hab_chain_cut(&chain, UINT32_MAX);
	hab_inbox_push(inbox, &chain);
}

static struct hab_free_chunk *first_of(struct hab_heap *heap, struct hab_thread *thread,
				       uint64_t chain, uint64_t *inbox)
{
	struct hab_free_chunk *chunk = hab_free_chunk_at(chain);

	if (chunk && chunk->next)
		keep_others(heap, thread, chunk->next, inbox);
	return chunk;
}

/* Compares the hardware's CPU number with the chunk's home. */
static void verify_home(struct hab_heap *heap, struct hab_thread *thread, uint32_t cpu,
			const struct hab_free_chunk *chunk)
{
	thread->counters.verified++;
	if (cpu >= heap->nr_cpus || !may_hand_out(heap, chunk->home, cpu))
		thread->counters.foreign++;
}

/* Not inline: gcc 12 mixes up the outputs of two sections in one function. */
__attribute__((noinline)) static enum hab_rseq_result
pop_verify(hab_tls_rseq *area, uint32_t cpu, uint64_t *word, struct hab_rseq_out *out)
{
	return hab_rseq_list_pop_verify(area, cpu, word, 0, out);
}

__attribute__((noinline)) static enum hab_rseq_result
empty_inbox(hab_tls_rseq *area, uint32_t cpu, uint64_t *word, struct hab_rseq_out *out)
{
	/* Pairs with hab_inbox_push(). */
	return hab_rseq_exchange_verify(area, cpu, word, 0, out);
}

/*
 * From the list of this CPU, or from the inbox of its domain. Both commit on the CPU, and what they
 * take is of its domain or the heap's.
 */
static struct hab_free_chunk *take_in_section(struct hab_heap *heap, struct hab_thread *thread,
					      uint32_t class)
{
	hab_tls_rseq *area = hab_tls_rseq_at(heap->rseq_offset);
	uint32_t cpu, home, level = serving_level(heap, hab_class_bytes(class));
	struct hab_free_chunk *chunk;
	enum hab_rseq_result result;
	struct hab_rseq_out out;
	uint64_t *word;

	do {
		cpu = hab_rseq_cpu(area);
		if (cpu >= heap->nr_cpus)
			return NULL;
		word = list_of(heap->lists, cpu, class);
		HAB_INJECT_BEFORE_SECTION();
		result = heap->verify ? pop_verify(area, cpu, word, &out) :
					hab_rseq_list_pop(area, cpu, word, 0, &out);
		if (result == HAB_RSEQ_EMPTY) {
			home = level ? home_at(heap, level, cpu) : 0;
			word = inbox_of(heap->lists, home, class);
			if (!home || !READ_ONCE(*word))
				return NULL;
			HAB_INJECT_BEFORE_SECTION();
			result = empty_inbox(area, cpu, word, &out);
			if (result == HAB_RSEQ_DONE && !out.old)
				return NULL;
			if (result == HAB_RSEQ_DONE)
				first_of(heap, thread, out.old, word);
		}
		thread->counters.restarts += result == HAB_RSEQ_RESTART;
	} while (result == HAB_RSEQ_RESTART);
	if (result != HAB_RSEQ_DONE)
		return NULL;
	chunk = hab_free_chunk_at(out.old);
	if (heap->verify)
		verify_home(heap, thread, out.hardware_cpu, chunk);
	return chunk;
}

struct hab_free_chunk *hab_lists_take(struct hab_heap *heap, struct hab_thread *thread,
				      uint32_t class)
{
	struct hab_free_chunk *chunk = NULL;
	uint64_t *inbox;

	if (thread->sections)
		chunk = take_in_section(heap, thread, class);
	if (!chunk) {
		inbox = inbox_of(heap->lists, 0, class);
		chunk = first_of(heap, thread, hab_inbox_take(inbox), inbox);
	}
	if (chunk) {
		thread->counters.listed_chunks++;
		thread->counters.free_bytes[level_of(heap->lists, chunk->home)] -= chunk->bytes;
	}
	return chunk;
}

/* --- collection ----------------------------------------------------------------------- */

/* The size of the extent that begins at @chunk; @last is set to its last chunk. */
static uint64_t extent_at(struct hab_free_chunk *chunk, struct hab_free_chunk **last)
{
	uint64_t bytes = chunk->bytes;

	while (chunk->next == (uintptr_t)chunk + chunk->bytes) {
		chunk = hab_free_chunk_at(chunk->next);
		bytes += chunk->bytes;
	}
	*last = chunk;
	return bytes;
}

static uint64_t largest_extent(uint64_t chain)
{
	struct hab_free_chunk *last;
	uint64_t bytes, most = 0;

	for (; chain; chain = last->next) {
		bytes = extent_at(hab_free_chunk_at(chain), &last);
		most = bytes > most ? bytes : most;
	}
	return most;
}

/* The chunks from @first to @last leave their lists for the heap. */
static void count_moved(struct hab_lists *lists, struct hab_free_chunk *first,
			const struct hab_free_chunk *last, bool to_books)
{
	for (;;) {
		uint32_t level = level_of(lists, first->home);

		lists->moved[level] += first->bytes;
		if (!to_books)
			lists->moved[0] -= first->bytes;
		first->home = 0;
		if (first == last)
			return;
		first = hab_free_chunk_at(first->next);
	}
}

static void put_in_heap_inbox(struct hab_lists *lists, struct hab_free_chunk *first,
			      const struct hab_free_chunk *last)
{
	struct hab_chunk_chain one;
	uint64_t next;

	count_moved(lists, first, last, false);
	for (;; first = hab_free_chunk_at(next)) {
		bool end = first == last;

		next = first->next;
		one.first = one.last = (uintptr_t)first;
		hab_inbox_push(inbox_of(lists, 0, first->class), &one);
		if (end)
			return;
	}
}

/* true if all regions are closed; lock of the threads held. */
static bool all_closed_locked(const struct hab_heap *heap)
{
	const struct hab_thread *thread;
	uint64_t open = heap->exited.open_chunks;

	for (thread = heap->threads; thread; thread = thread->next)
		open += READ_ONCE(thread->counters.open_chunks);
	return !open;
}

/* Returns extents of at least @least bytes, at most @most of them, to the books. */
static bool return_extents(struct hab_heap *heap, uint64_t chain, uint64_t least, uint32_t most)
{
	struct hab_free_chunk *first, *last;
	bool returned = false;
	uint64_t bytes, next;

	for (; chain; chain = next) {
		first = hab_free_chunk_at(chain);
		bytes = extent_at(first, &last);
		next = last->next;
		if (bytes < least || !most) {
			put_in_heap_inbox(heap->lists, first, last);
			continue;
		}
		count_moved(heap->lists, first, last, true);
		if (!heap->backend->give_back(heap, chain - (uintptr_t)heap->arena, bytes))
			returned = true;
		most--;
	}
	return returned;
}

static int nothing_to_stop(void)
{
	return 0;
}

bool hab_lists_collect(struct hab_heap *heap, uint64_t least)
{
	struct hab_lists *lists = heap->lists;
	bool returned = false;
	uint64_t chain;

	if (!__atomic_load_n(&lists->used, __ATOMIC_RELAXED))
		return false;
	hab_thread_lock();
	chain = hab_free_lists_collect(&lists->words,
				       heap->sections ? hab_rseq_stop : nothing_to_stop);
	if (chain) {
		lists->collections++;
		chain = hab_chain_sort(chain);
		if (all_closed_locked(heap)) {
			returned = return_extents(heap, chain, 0, UINT32_MAX);
		} else {
			uint64_t half = largest_extent(chain) / 2;

			returned = return_extents(heap, chain, least > half ? least : half,
						  EXTENTS_AT_ONCE);
		}
	}
	hab_thread_unlock();
	return returned;
}

/* --- creation and reset --------------------------------------------------------------- */

int hab_lists_create(struct hab_heap *heap)
{
	size_t nr_lists = (size_t)heap->nr_cpus * HAB_CLASSES;
	size_t nr_inboxes = ((size_t)heap->nr_cpus * heap->nr_levels + 1) * HAB_CLASSES;
	struct hab_lists *lists = calloc(1, sizeof(*lists));
	uint64_t *words;

	if (!lists)
		return -ENOMEM;
	/* Most CPU numbers may be of CPUs that are not there: calloc() touches no page. */
	lists->memory = calloc(1, (2 * nr_lists + nr_inboxes) * sizeof(*words) + CACHE_LINE);
	if (!lists->memory) {
		free(lists);
		return -ENOMEM;
	}
	words = (uint64_t *)(((uintptr_t)lists->memory + CACHE_LINE - 1) & -(uintptr_t)CACHE_LINE);
	lists->nr_cpus = heap->nr_cpus;
	lists->words.nr_lists = nr_lists;
	lists->words.nr_inboxes = nr_inboxes;
	lists->words.lists = words;
	lists->words.inboxes = words + nr_lists;
	lists->words.emptied = lists->words.inboxes + nr_inboxes;
	heap->lists = lists;
	if (heap->sections)
		hab_rseq_can_stop();
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
	uint32_t level;

	heap->lives++;
	if (!lists->used)
		return;
	hab_free_lists_reset(&lists->words);
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

void hab_lists_stats(const struct hab_heap *heap, struct hab_heap_stats *stats)
{
	uint32_t level;

	stats->collections = heap->lists->collections;
	for (level = 0; level < HAB_STATS_LEVELS; level++)
		stats->free_chunk_bytes[level] -= heap->lists->moved[level];
}
