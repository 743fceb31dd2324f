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
#include "lib/alloc/lists_state.h"
#include "lib/thread.h"
#include "lib/rseq/rseq.h"

#ifndef HAB_INJECT_BEFORE_SECTION
#define HAB_INJECT_BEFORE_SECTION()
#endif

/* Four classes a doubling begin above this size. */
#define CLASS_BASE_SHIFT 13

#define CACHE_LINE	 64

/* So many extents are looked at for one that is large enough. */
#define LOOKS		 16

_Static_assert(offsetof(struct hab_free_chunk, next) == 0, "sections follow the first 8 bytes");
_Static_assert(sizeof(struct hab_free_chunk) % 16 == 0, "objects begin aligned behind it");

u32 hab_lists_heap_home(const struct hab_heap *heap)
{
	return heap->lists->nr_cpus;
}

static u32 own_id(const struct hab_heap *heap, const hab_tls_rseq *area)
{
	return heap->word_of == HAB_WORD_OF_CID ? hab_rseq_cid(area) : hab_rseq_cpu(area);
}

u32 hab_lists_own_home(const struct hab_heap *heap)
{
	u32 id = own_id(heap, hab_tls_rseq_at(heap->rseq_offset));

	return id < heap->nr_cpus ? id : hab_lists_heap_home(heap);
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

_Static_assert(HAB_LEAST_CLASS_BYTES == 5 << (CLASS_BASE_SHIFT - 2), "class 2 is the smallest");

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

u32 hab_class_within(u64 bytes)
{
	u32 class = 2;

	while (class + 1 < HAB_CLASSES && hab_class_bytes(class + 1) <= bytes)
		class++;
	return class;
}

/* --- put and take --------------------------------------------------------------------- */

void hab_lists_push(u64 *word, struct hab_free_chunk *first, struct hab_free_chunk *last)
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
	hab_lists_push(hab_lists_word(lists, first->home, first->class), first, last);
}

HAB_RSEQ_FUNCTION(pop, hab_rseq_list_pop)
HAB_RSEQ_FUNCTION(pop_verify, hab_rseq_list_pop_verify)
HAB_RSEQ_FUNCTION(pop_cid, hab_rseq_list_pop_cid)
HAB_RSEQ_FUNCTION(pop_cid_verify, hab_rseq_list_pop_cid_verify)

static enum hab_rseq_result pop_once(const struct hab_heap *heap, hab_tls_rseq *area, u32 cpu,
				     u32 id, u64 *word, struct hab_rseq_out *out)
{
	if (heap->word_of == HAB_WORD_OF_CID)
		return heap->verify ? pop_cid_verify(area, cpu, id, word, 0, out) :
				      pop_cid(area, cpu, id, word, 0, out);
	return heap->verify ? pop_verify(area, cpu, 0, word, 0, out) :
			      pop(area, cpu, 0, word, 0, out);
}

struct hab_free_chunk *hab_lists_pop_own(struct hab_heap *heap, struct hab_thread *thread,
					 u32 class)
{
	hab_tls_rseq *area = hab_tls_rseq_at(heap->rseq_offset);
	struct hab_free_chunk *chunk;
	enum hab_rseq_result result;
	struct hab_rseq_out out;
	u64 *word;
	u32 cpu, id, tries = 0;

	do {
		cpu = hab_rseq_cpu(area);
		id = own_id(heap, area);
		if (id >= heap->nr_cpus)
			return NULL;
		word = hab_lists_word(heap->lists, id, class);
		HAB_INJECT_BEFORE_SECTION();
		result = pop_once(heap, area, cpu, id, word, &out);
		thread->counters.restarts += result == HAB_RSEQ_RESTART;
		thread->counters.conflicts += result == HAB_RSEQ_CONFLICT;
	} while ((result == HAB_RSEQ_RESTART || result == HAB_RSEQ_CONFLICT) &&
		 ++tries < HAB_RSEQ_TRIES);
	if (result != HAB_RSEQ_DONE)
		return NULL;
	chunk = hab_free_chunk_at(out.old);
	if (heap->verify && out.hardware_cpu != HAB_CPU_UNKNOWN) {
		thread->counters.verified++;
		thread->counters.foreign += chunk->home != id || out.hardware_cpu != cpu;
	}
	return chunk;
}

/* All that pop from the heap's lists hold the lock, so there is no ABA. */
static struct hab_free_chunk *pop_from_heap(struct hab_lists *lists, u32 class)
{
	u64 *word = hab_lists_word(lists, lists->nr_cpus, class), old, found;

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
		chunk = hab_lists_pop_own(heap, thread, class);
	if (chunk)
		return chunk;
	chunk = pop_from_heap(heap->lists, class);
	if (chunk && thread->sections)
		chunk->home = hab_lists_own_home(heap);
	return chunk;
}

/* Takes the chunk that @link points to out of its list; lock of the threads held. */
static bool unlink_locked(u64 *link, struct hab_free_chunk *chunk)
{
	/* The first chunk: others push meanwhile. */
	return hab_word_cmpxchg(link, (uintptr_t)chunk, READ_ONCE(chunk->next)) ==
	       (uintptr_t)chunk;
}

/* What is left of an extent of which @bytes are taken is an extent. */
static void split(struct hab_lists *lists, struct hab_free_chunk *chunk, u64 bytes)
{
	struct hab_free_chunk *rest = (struct hab_free_chunk *)((char *)chunk + bytes);

	if (chunk->bytes - bytes < HAB_LEAST_EXTENT)
		return;
	*rest = *chunk;
	rest->bytes -= bytes;
	chunk->bytes = bytes;
	hab_lists_push(hab_lists_word(lists, 0, HAB_CLASS_NONE), rest, rest);
}

struct hab_free_chunk *hab_lists_take_extent(struct hab_heap *heap, u64 bytes)
{
	u64 *link = hab_lists_word(heap->lists, 0, HAB_CLASS_NONE), at;
	struct hab_free_chunk *chunk, *found = NULL;
	int looks;

	if (!READ_ONCE(*link))
		return NULL;
	bytes = (bytes + HAB_GRANULE - 1) & ~(HAB_GRANULE - 1);
	hab_thread_lock();
	/* Pairs with the cmpxchg in hab_lists_push(). */
	for (looks = 0; looks < LOOKS && !found && (at = hab_load_acquire(link)); looks++) {
		chunk = hab_free_chunk_at(at);
		if (chunk->bytes >= bytes && unlink_locked(link, chunk))
			found = chunk;
		link = &chunk->next;
	}
	if (found)
		split(heap->lists, found, bytes);
	hab_thread_unlock();
	return found;
}

/* --- creation and reset --------------------------------------------------------------- */

int hab_lists_create(struct hab_heap *heap)
{
	size_t nr = hab_lists_words(heap->nr_cpus);
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
		memset(lists->words, 0, hab_lists_words(lists->nr_cpus) * sizeof(u64));
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
	stats->trimmed_bytes = heap->lists->trimmed;
	for (level = 0; level < HAB_STATS_LEVELS; level++)
		stats->free_chunk_bytes[level] -= heap->lists->moved[level];
}
