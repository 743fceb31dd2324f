// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Taking a chunk from the lowest buffer of the CPU that the thread is on.
 *
 * A chunk comes from the buffer of the CPU that commits: a section of rseq.h commits only if the
 * thread was not moved since it read the CPU number (the paper's foreign allocation). Everything
 * before the section is a guess, and a wrong guess only costs a restart.
 *
 * The fast path takes exactly the requested size, or fails. Then the slow path tries again, takes
 * less if less serves, and refills.
 */
#include <errno.h>

#include "lib/alloc/chunk.h"
#include "lib/alloc/lists.h"
#include "lib/alloc/registry.h"
#include "lib/thread.h"
#include "lib/rseq/rseq.h"
#include "lib/telemetry/sampler.h"

/* Tests put delays here, where a thread is easily moved. */
#ifndef HAB_INJECT_BEFORE_SECTION
#define HAB_INJECT_BEFORE_SECTION()
#endif

_Static_assert(HAB_WORD_TOP_BITS + HAB_GRANULE_SHIFT <= 64, "a word's top in bytes fits 64 bits");

#define INLINE static inline __attribute__((always_inline))

/* The sections of the slow path, in functions of their own (rseq.h). */
HAB_RSEQ_FUNCTION(take_store, hab_rseq_take_store)
HAB_RSEQ_FUNCTION(take_store_verify, hab_rseq_take_store_verify)
HAB_RSEQ_FUNCTION(take_store_cid, hab_rseq_take_store_cid)
HAB_RSEQ_FUNCTION(take_store_cid_verify, hab_rseq_take_store_cid_verify)
HAB_RSEQ_FUNCTION(take_cmpxchg, hab_rseq_take_cmpxchg)
HAB_RSEQ_FUNCTION(take_cmpxchg_verify, hab_rseq_take_cmpxchg_verify)

typedef enum hab_rseq_result section(hab_tls_rseq *area, uint32_t cpu, uint32_t cid,
				     uint64_t *word, uint64_t operand, struct hab_rseq_out *out);

static section *section_of(enum hab_word_of word_of, bool verify)
{
	if (word_of == HAB_WORD_OF_CID)
		return verify ? take_store_cid_verify : take_store_cid;
	if (word_of == HAB_WORD_OF_CPU)
		return verify ? take_store_verify : take_store;
	return verify ? take_cmpxchg_verify : take_cmpxchg;
}

/* On the fast path @word_of is a constant. */
INLINE section *fast_section_of(enum hab_word_of word_of)
{
	return word_of == HAB_WORD_OF_CID ? hab_rseq_take_store_cid :
	       word_of == HAB_WORD_OF_CPU ? hab_rseq_take_store :
					hab_rseq_take_cmpxchg;
}

/* The domain of the word that a thread on @cpu takes from; @nr or more if there is none. */
INLINE uint32_t domain_of(const struct hab_heap *heap, const hab_tls_rseq *area, uint32_t cpu,
			  uint32_t nr, enum hab_word_of word_of)
{
	if (word_of == HAB_WORD_OF_CID)
		return hab_rseq_cid(area);
	if (word_of == HAB_WORD_OF_CPU)
		return cpu;
	return cpu < nr ? __atomic_load_n(&heap->domains[cpu], __ATOMIC_RELAXED) : HAB_DOMAIN_NONE;
}

/*
 * The operand of sections. The compiler would multiply by shifts, which are two instructions more,
 * and later, which takes a register more.
 */
INLINE uint64_t negated_steps(uint64_t n)
{
	uint64_t product = -HAB_WORD_STEP;

	__asm__("" : "+r"(product));
	product *= n;
	__asm__ volatile("" : "+r"(product));
	return product;
}

/*
 * One try to take @n granules from a word of a domain below @nr. If the result is HAB_RSEQ_DONE
 * @out is set, and all of @chunk but what fill_in() sets. Few registers and instructions, because
 * this is the most frequent code: what is set before the section needs no register in it.
 */
INLINE enum hab_rseq_result take_once(const struct hab_heap *heap, uint64_t n, uint32_t nr,
				      enum hab_word_of word_of, section *section,
				      struct hab_chunk *chunk, struct hab_rseq_out *out)
{
	uint64_t operand = negated_steps(n);
	hab_tls_rseq *area = hab_tls_rseq_at(heap->rseq_offset);
	uint32_t cpu = hab_rseq_cpu(area);
	uint32_t domain = domain_of(heap, area, cpu, nr, word_of);

	/* @nr once more would need a register. */
	if (__builtin_expect(domain >= (word_of == HAB_WORD_SHARED ? heap->nr_cpus : nr), 0))
		return HAB_RSEQ_NOT_TRIED;
	HAB_INJECT_BEFORE_SECTION();
	chunk->cpu = cpu;
	chunk->domain = domain;
	chunk->level = heap->nr_levels;
	return section(area, cpu, domain, hab_heap_word(heap, domain), operand, out);
}

/* The word's lower bits, in bytes, are the chunk's place in the arena. */
INLINE void *base_of(const struct hab_heap *heap, uint64_t word)
{
	return heap->arena + (word << (64 - HAB_WORD_TOP_BITS) >>
			      (64 - HAB_WORD_TOP_BITS - HAB_GRANULE_SHIFT));
}

INLINE void fill_in(struct hab_chunk *chunk, const struct hab_heap *heap, uint64_t word, uint64_t n)
{
	chunk->base = base_of(heap, word);
	chunk->size = n << HAB_GRANULE_SHIFT;
}

static uint64_t granules(uint64_t bytes)
{
	return (bytes >> HAB_GRANULE_SHIFT) + !!(bytes & (HAB_GRANULE - 1));
}

/* One granule less than hold @bytes; more than a word can have for 0 bytes. */
INLINE uint64_t further_granules(uint64_t bytes)
{
	return (bytes - 1) >> HAB_GRANULE_SHIFT;
}

INLINE void count_chunk(struct hab_thread *thread, uint64_t bytes)
{
	thread->counters.chunks++;
	thread->counters.chunk_bytes += bytes;
}

/* true if the sampler has to look at the chunk. */
INLINE bool count_down(struct hab_thread *thread, uint64_t bytes)
{
	thread->chunk_bytes_left -= bytes;
	return thread->chunk_bytes_left < 0;
}

static void count_failure(struct hab_thread *thread, enum hab_rseq_result result)
{
	thread->counters.restarts += result == HAB_RSEQ_RESTART;
	thread->counters.conflicts += result == HAB_RSEQ_CONFLICT;
}

/*
 * Compares the hardware's CPU number with the buffer's domain. No hardware knows a cid: then with
 * the CPU that the section has compared.
 */
static void verify_domain(struct hab_heap *heap, struct hab_thread *thread, uint32_t cpu,
			  struct hab_chunk *chunk)
{
	thread->counters.verified++;
	if (heap->word_of == HAB_WORD_OF_CID)
		thread->counters.foreign += cpu != (uint32_t)chunk->cpu;
	else if (cpu >= heap->nr_cpus || heap->domains[cpu] != (uint32_t)chunk->domain)
		thread->counters.foreign++;
	chunk->cpu = cpu;
}

/* Free granules in the word that the thread seems to take from. */
static uint64_t free_in_word(const struct hab_heap *heap)
{
	hab_tls_rseq *area = hab_rseq_area();
	uint32_t domain =
		domain_of(heap, area, hab_rseq_cpu(area), heap->nr_cpus, heap->word_of);

	if (domain >= heap->nr_cpus)
		return 0;
	return HAB_WORD_FREE(__atomic_load_n(hab_heap_word(heap, domain), __ATOMIC_RELAXED));
}

/*
 * From @least to @want granules. true if @chunk was filled in, false if a refill is needed: also if
 * no section ends, and then the thread has no sections.
 */
static bool take_from_word(struct hab_heap *heap, struct hab_thread *thread, uint64_t least,
			   uint64_t want, struct hab_chunk *chunk)
{
	uint64_t n = want < HAB_WORD_FREE_MAX ? want : HAB_WORD_FREE_MAX, left;
	section *section = section_of(heap->word_of, heap->verify);
	enum hab_rseq_result result;
	struct hab_rseq_out out;
	int tries;

	for (tries = 0; tries < HAB_RSEQ_TRIES; tries++) {
		result = take_once(heap, n, heap->nr_cpus, heap->word_of, section, chunk, &out);
		switch (result) {
		case HAB_RSEQ_DONE:
			fill_in(chunk, heap, out.old, n);
			if (heap->verify && out.hardware_cpu != HAB_CPU_UNKNOWN)
				verify_domain(heap, thread, out.hardware_cpu, chunk);
			return true;
		case HAB_RSEQ_NOT_TRIED:
			return false;
		case HAB_RSEQ_EMPTY:
			left = free_in_word(heap);
			n = left < want ? left : want;
			if (n < least)
				return false;
			break;
		default:
			count_failure(thread, result);
			break;
		}
	}
	thread->sections = false;
	return false;
}

static int take_by_refill(struct hab_heap *heap, struct hab_thread *thread, uint64_t least,
			  uint64_t want, struct hab_chunk *chunk)
{
	uint64_t restarts = thread->counters.restarts, waste = thread->counters.tlab_waste_bytes;
	struct hab_ioc_refill refill = {
		.min_bytes = least,
		.want_bytes = want,
		.restarts = restarts - thread->reported.restarts,
		.waste_bytes = waste - thread->reported.waste_bytes,
	};
	int err = heap->backend->refill(heap, thread, &refill);

	if (err)
		return err;
	if (refill.granted_bytes) {
		thread->reported.restarts = restarts;
		thread->reported.waste_bytes = waste;
		thread->counters.refills++;
		thread->counters.refill_bytes += refill.granted_bytes;
	}
	if (refill.sample_id)
		hab_event_send_stack(thread, refill.sample_id);
	chunk->base = heap->arena + refill.chunk_offset;
	chunk->size = refill.chunk_bytes;
	chunk->cpu = refill.cpu;
	chunk->domain = refill.domain;
	chunk->level = refill.level;
	return 0;
}

/*
 * Handles restarts, conflicts, smaller sizes, verification and refills. A full heap has no memory
 * only after its free chunks were collected.
 */
__attribute__((noinline)) static int take_slowly(struct hab_heap *heap, struct hab_thread *thread,
						 uint64_t least, uint64_t want,
						 struct hab_chunk *chunk)
{
	bool small = least <= heap->lowest_bytes, sections;
	uint64_t returns;
	int err;

	hab_registry_notice_child();
	sections = thread->sections;
	/* No buffer is that large, and the granules of a larger size would not fit their bits. */
	if (least > heap->arena_bytes)
		return -ENOMEM;
	do {
		returns = hab_lists_returns(heap);
		if (small && thread->sections &&
		    take_from_word(heap, thread, granules(least), granules(want), chunk))
			err = 0;
		else
			err = take_by_refill(heap, thread, least, want, chunk);
	} while (err == -EAGAIN || (err == -ENOMEM && hab_lists_collect(heap, least, returns)));
	thread->sections = sections;
	if (!err)
		count_chunk(thread, chunk->size);
	return err;
}

/*
 * The fast path: exactly @further granules and one. @thread is the thread of the TLAB, which has
 * domains if both thread and heap take by plain sections.
 */
INLINE enum hab_rseq_result take_fast(const struct hab_heap *heap, const struct hab_thread *thread,
				      uint64_t further, enum hab_word_of word_of,
				      struct hab_chunk *chunk, struct hab_rseq_out *out)
{
	if (__builtin_expect(further >= HAB_WORD_FREE_MAX, 0))
		return HAB_RSEQ_NOT_TRIED;
	return take_once(heap, further + 1, thread->nr_domains, word_of, fast_section_of(word_of),
			 chunk, out);
}

INLINE struct hab_thread *fast_thread(const struct hab_heap *heap)
{
	return hab_tls_at(heap->tlab_offset)->thread;
}

/* For TLABs and regions, whose objects the sampler counts. */
INLINE enum hab_rseq_result take_inner(struct hab_heap *heap, uint64_t further,
				       enum hab_word_of word_of, struct hab_chunk *chunk)
{
	struct hab_thread *thread = fast_thread(heap);
	struct hab_rseq_out out;
	enum hab_rseq_result result = take_fast(heap, thread, further, word_of, chunk, &out);

	if (result == HAB_RSEQ_DONE) {
		fill_in(chunk, heap, out.old, further + 1);
		count_chunk(thread, chunk->size);
	}
	return result;
}

/* Functions, as those of the slow path; and with three sections in one it had a larger frame. */
#define TAKE_INNER(name, word_of)                                                              \
	__attribute__((noinline)) static enum hab_rseq_result name(                          \
		struct hab_heap *heap, uint64_t further, struct hab_chunk *chunk)            \
	{                                                                                    \
		return take_inner(heap, further, word_of, chunk);                              \
	}
TAKE_INNER(take_inner_of_cpu, HAB_WORD_OF_CPU)
TAKE_INNER(take_inner_of_cid, HAB_WORD_OF_CID)
TAKE_INNER(take_inner_shared, HAB_WORD_SHARED)

int hab_take(struct hab_heap *heap, struct hab_thread *thread, uint64_t least, uint64_t want,
	     struct hab_chunk *chunk)
{
	uint64_t further = further_granules(want);
	enum hab_rseq_result result =
		heap->word_of == HAB_WORD_OF_CPU ? take_inner_of_cpu(heap, further, chunk) :
		heap->word_of == HAB_WORD_OF_CID ? take_inner_of_cid(heap, further, chunk) :
					       take_inner_shared(heap, further, chunk);

	if (result == HAB_RSEQ_DONE)
		return 0;
	count_failure(thread, result);
	return take_slowly(heap, thread, least, want, chunk);
}

INLINE int take_in_slow_path(struct hab_heap *heap, size_t size, struct hab_chunk *chunk,
			     enum hab_rseq_result result, uintptr_t entry)
{
	struct hab_thread *thread;
	int err;

	if (!size)
		return -EINVAL;
	thread = hab_thread_get(heap);
	if (!thread)
		return -ENOMEM;
	thread->entry = entry;
	count_failure(thread, result);
	if (__builtin_expect(hab_sampler_needed(thread), 0))
		hab_sampler_look(thread);
	err = take_slowly(heap, thread, size, size, chunk);
	if (!err && count_down(thread, chunk->size))
		hab_sampler_chunk(thread, chunk);
	return err;
}

INLINE void sample_chunk(struct hab_heap *heap, const struct hab_chunk *chunk, uintptr_t entry)
{
	struct hab_thread *thread = hab_tls_at(heap->tlab_offset)->thread;

	thread->entry = entry;
	hab_sampler_chunk(thread, chunk);
}

/*
 * The slow paths of both functions. They are called last and with the caller's arguments: that
 * costs the caller no register, and their CFA is that of the library's caller.
 */
#define SLOW_PATH __attribute__((noinline, cold)) static
#define ENTRY	  ((uintptr_t)__builtin_dwarf_cfa())

SLOW_PATH int chunk_take_slowly(struct hab_heap *heap, size_t size, struct hab_chunk *chunk,
				enum hab_rseq_result result)
{
	return take_in_slow_path(heap, size, chunk, result, ENTRY);
}

SLOW_PATH int chunk_taken(struct hab_heap *heap, const struct hab_chunk *chunk)
{
	sample_chunk(heap, chunk, ENTRY);
	return 0;
}

SLOW_PATH void *base_take_slowly(struct hab_heap *heap, size_t size, enum hab_rseq_result result)
{
	struct hab_chunk chunk;
	int err = take_in_slow_path(heap, size, &chunk, result, ENTRY);

	if (!err)
		return chunk.base;
	errno = -err;
	return NULL;
}

SLOW_PATH void *base_taken(struct hab_heap *heap, void *base, uint64_t n)
{
	struct hab_chunk chunk = { .base = base, .size = n << HAB_GRANULE_SHIFT };

	sample_chunk(heap, &chunk, ENTRY);
	return base;
}

INLINE int chunk_take(struct hab_heap *heap, size_t size, enum hab_word_of word_of,
		      struct hab_chunk *chunk)
{
	struct hab_thread *thread = fast_thread(heap);
	uint64_t further = further_granules(size), bytes = (further + 1) << HAB_GRANULE_SHIFT;
	struct hab_rseq_out out;
	enum hab_rseq_result result = take_fast(heap, thread, further, word_of, chunk, &out);

	if (__builtin_expect(result == HAB_RSEQ_NOT_TRIED, 0))
		return chunk_take_slowly(heap, size, chunk, result);
	/* @bytes, so that @size needs no register until here. */
	if (__builtin_expect(result != HAB_RSEQ_DONE, 0))
		return chunk_take_slowly(heap, bytes, chunk, result);
	fill_in(chunk, heap, out.old, further + 1);
	count_chunk(thread, bytes);
	if (__builtin_expect(count_down(thread, bytes), 0))
		return chunk_taken(heap, chunk);
	return 0;
}

static int chunk_take_of_cpu(struct hab_heap *heap, size_t size, struct hab_chunk *chunk)
{
	return chunk_take(heap, size, HAB_WORD_OF_CPU, chunk);
}

static int chunk_take_of_cid(struct hab_heap *heap, size_t size, struct hab_chunk *chunk)
{
	return chunk_take(heap, size, HAB_WORD_OF_CID, chunk);
}

static int chunk_take_shared(struct hab_heap *heap, size_t size, struct hab_chunk *chunk)
{
	return chunk_take(heap, size, HAB_WORD_SHARED, chunk);
}

int hab_chunk_take(struct hab_heap *heap, size_t size, struct hab_chunk *chunk)
{
	return heap->take(heap, size, chunk);
}

INLINE void *base_take(struct hab_heap *heap, size_t size, enum hab_word_of word_of)
{
	struct hab_thread *thread = fast_thread(heap);
	uint64_t further = further_granules(size), bytes = (further + 1) << HAB_GRANULE_SHIFT;
	struct hab_chunk chunk;
	struct hab_rseq_out out;
	enum hab_rseq_result result = take_fast(heap, thread, further, word_of, &chunk, &out);
	void *base;

	if (__builtin_expect(result == HAB_RSEQ_NOT_TRIED, 0))
		return base_take_slowly(heap, size, result);
	if (__builtin_expect(result != HAB_RSEQ_DONE, 0))
		return base_take_slowly(heap, bytes, result);
	base = base_of(heap, out.old);
	count_chunk(thread, bytes);
	if (__builtin_expect(count_down(thread, bytes), 0))
		return base_taken(heap, base, further + 1);
	return base;
}

static void *base_take_of_cpu(struct hab_heap *heap, size_t size)
{
	return base_take(heap, size, HAB_WORD_OF_CPU);
}

static void *base_take_of_cid(struct hab_heap *heap, size_t size)
{
	return base_take(heap, size, HAB_WORD_OF_CID);
}

static void *base_take_shared(struct hab_heap *heap, size_t size)
{
	return base_take(heap, size, HAB_WORD_SHARED);
}

void *hab_chunk_take_base(struct hab_heap *heap, size_t size)
{
	return heap->take_base(heap, size);
}

void hab_take_choose(struct hab_heap *heap)
{
	switch (heap->word_of) {
	case HAB_WORD_OF_CPU:
		heap->take = chunk_take_of_cpu;
		heap->take_base = base_take_of_cpu;
		break;
	case HAB_WORD_OF_CID:
		heap->take = chunk_take_of_cid;
		heap->take_base = base_take_of_cid;
		break;
	case HAB_WORD_SHARED:
		heap->take = chunk_take_shared;
		heap->take_base = base_take_shared;
		break;
	}
}
