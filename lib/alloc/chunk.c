// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Taking a chunk from the lowest buffer of the CPU that the thread is on.
 *
 * The hard case is the time between reading the CPU number and the commit: the
 * thread may be moved (the paper's foreign allocation). The section of rseq.h
 * commits only where that did not happen; everything before it is a guess that
 * may be wrong without harm.
 */
#include <errno.h>

#include "lib/alloc/chunk.h"
#include "lib/rseq/rseq.h"
#include "lib/telemetry/stack.h"
#include "lib/rseq/tls.h"
#include "lib/telemetry/usdt.h"

/* Tests put delays here, where a thread is easily moved. */
#ifndef HAB_INJECT_BEFORE_SECTION
#define HAB_INJECT_BEFORE_SECTION()
#endif

static uint64_t granules(uint64_t bytes)
{
	return (bytes >> HAB_GRANULE_SHIFT) + !!(bytes & (HAB_GRANULE - 1));
}

/* The CPU that the thread seems to be on, and its domain; false: only a refill can tell. */
static inline bool choose_domain(const struct hab_heap *heap, const struct rseq *area,
				 uint32_t *cpu, uint32_t *domain)
{
	*cpu = hab_rseq_cpu(area);
	if (*cpu >= heap->nr_cpus)
		return false;
	*domain = __atomic_load_n(&heap->domains[*cpu], __ATOMIC_RELAXED);
	return *domain != HAB_DOMAIN_NONE;
}

static inline void fill_chunk(const struct hab_heap *heap, const struct hab_rseq_take *take,
			      uint32_t cpu, uint32_t domain, struct hab_chunk *chunk)
{
	chunk->base = heap->arena + (HAB_WORD_TOP(take->old) << HAB_GRANULE_SHIFT);
	chunk->size = take->taken << HAB_GRANULE_SHIFT;
	chunk->cpu = cpu;
	chunk->domain = domain;
	chunk->level = heap->nr_levels;
}

static inline void count_chunk(struct hab_thread *thread, const struct hab_chunk *chunk)
{
	thread->counters.chunks++;
	thread->counters.chunk_bytes += chunk->size;
}

static enum hab_rseq_result run_section(struct hab_heap *heap, struct rseq *area, uint32_t cpu,
					uint64_t *word, struct hab_rseq_take *take)
{
	if (!heap->verify)
		return heap->shared ? hab_rseq_take_cmpxchg(area, cpu, word, take) :
				      hab_rseq_take_store(area, cpu, word, take);
	return heap->shared ? hab_rseq_take_cmpxchg_verify(area, cpu, word, take) :
			      hab_rseq_take_store_verify(area, cpu, word, take);
}

/* The hardware's number against the buffer's domain: is this chunk foreign? */
static void check_domain(struct hab_heap *heap, struct hab_thread *thread, uint32_t cpu,
			 uint32_t domain)
{
	thread->counters.verified++;
	if (cpu >= heap->nr_cpus || heap->domains[cpu] != domain)
		thread->counters.foreign++;
}

/* true if @chunk was filled in, false if a refill has to do it. */
static bool take_from_word(struct hab_heap *heap, struct hab_thread *thread, uint64_t least,
			   uint64_t want, struct hab_chunk *chunk)
{
	struct hab_rseq_take take = { .least = granules(least), .want = granules(want) };
	struct rseq *area = hab_rseq_area();
	uint32_t cpu, domain;

	while (choose_domain(heap, area, &cpu, &domain)) {
		HAB_INJECT_BEFORE_SECTION();
		switch (run_section(heap, area, cpu, hab_heap_word(heap, domain), &take)) {
		case HAB_RSEQ_DONE:
			if (heap->verify) {
				cpu = take.hardware_cpu;
				check_domain(heap, thread, cpu, domain);
			}
			fill_chunk(heap, &take, cpu, domain, chunk);
			return true;
		case HAB_RSEQ_EMPTY:
			return false;
		case HAB_RSEQ_RESTART:
			thread->counters.restarts++;
			break;
		case HAB_RSEQ_CONFLICT:
			thread->counters.conflicts++;
			break;
		}
	}
	return false;
}

static int take_by_refill(struct hab_heap *heap, struct hab_thread *thread, uint64_t least,
			  uint64_t want, struct hab_chunk *chunk)
{
	uint64_t restarts = thread->counters.restarts, waste = thread->counters.tlab_waste_bytes;
	struct hab_ioc_refill refill = {
		.min_bytes = least,
		.want_bytes = want,
		.restarts = restarts - thread->told.restarts,
		.waste_bytes = waste - thread->told.waste_bytes,
	};
	int err = heap->backend->refill(heap, thread, &refill);

	if (err)
		return err;
	if (refill.granted_bytes) {
		thread->told.restarts = restarts;
		thread->told.waste_bytes = waste;
		thread->counters.refills++;
		thread->counters.refill_bytes += refill.granted_bytes;
		/* The kernel tells of its own. */
		if (!heap->backend->report)
			hab_usdt_refill(heap, &refill);
	}
	if (refill.sample_id)
		hab_stack_send(thread, refill.sample_id);
	chunk->base = heap->arena + refill.chunk_offset;
	chunk->size = refill.chunk_bytes;
	chunk->cpu = refill.cpu;
	chunk->domain = refill.domain;
	chunk->level = refill.level;
	return 0;
}

/* Whatever it takes: restarts, conflicts, refills, verification. */
__attribute__((noinline)) static int take_slowly(struct hab_heap *heap, struct hab_thread *thread,
						 uint64_t least, uint64_t want,
						 struct hab_chunk *chunk)
{
	bool small = least <= heap->lowest_bytes;
	int err;

	/* No buffer is that large, and beyond it granules would not fit their bits. */
	if (least > heap->arena_bytes)
		return -ENOMEM;
	if (heap->backend->take) {
		err = heap->backend->take(heap, thread, granules(least), granules(want), chunk);
		if (!err)
			count_chunk(thread, chunk);
		return err;
	}
	do {
		if (small && thread->sections && take_from_word(heap, thread, least, want, chunk))
			err = 0;
		else
			err = take_by_refill(heap, thread, least, want, chunk);
	} while (err == -EAGAIN);
	if (!err)
		count_chunk(thread, chunk);
	return err;
}

/*
 * One try of the common case: exactly @size bytes, or why not. HAB_RSEQ_EMPTY says also
 * that only the slow path can serve it. Kept to few registers and instructions, because
 * nothing else is as frequent: a TLAB that names its record says that thread and heap may
 * run sections, and the domain of a buffer that is not shared has its CPU's number.
 */
static inline __attribute__((always_inline)) enum hab_rseq_result
take_exactly(const struct hab_heap *heap, uint64_t size, bool shared, struct hab_chunk *chunk)
{
	hab_tls_rseq *area = hab_tls_rseq_at(heap->rseq_offset);
	uint32_t cpu = *(volatile uint32_t HAB_TLS_RSEQ *)&area->cpu_id_start;
	uint64_t n = (size + HAB_GRANULE - 1) >> HAB_GRANULE_SHIFT;
	enum hab_rseq_result result;
	uint32_t domain = cpu;
	uint64_t old = 0;

	if (__builtin_expect(n - 1 >= HAB_WORD_FREE_MAX || cpu >= heap->nr_cpus, 0))
		return HAB_RSEQ_EMPTY;
	if (shared) {
		domain = __atomic_load_n(&heap->domains[cpu], __ATOMIC_RELAXED);
		if (__builtin_expect(domain == HAB_DOMAIN_NONE, 0))
			return HAB_RSEQ_EMPTY;
	}
	HAB_INJECT_BEFORE_SECTION();
	if (shared)
		result = hab_rseq_take_exact_cmpxchg(area, cpu, hab_heap_word(heap, domain),
						     n * HAB_WORD_STEP, &old);
	else
		result = hab_rseq_take_exact_store(area, cpu, hab_heap_word(heap, domain),
						   n * HAB_WORD_STEP, &old);
	if (result != HAB_RSEQ_DONE)
		return result;
	/* The word's lower bits, in bytes. */
	chunk->base = heap->arena + (old << (64 - HAB_WORD_TOP_BITS) >>
				     (64 - HAB_WORD_TOP_BITS - HAB_GRANULE_SHIFT));
	chunk->size = n << HAB_GRANULE_SHIFT;
	chunk->cpu = cpu;
	chunk->domain = domain;
	chunk->level = heap->nr_levels;
	/* Read again: a register less to keep across the section. */
	count_chunk(hab_tls_at(heap->tlab_offset)->thread, chunk);
	return HAB_RSEQ_DONE;
}

static void count_failure(struct hab_thread *thread, enum hab_rseq_result result)
{
	thread->counters.restarts += result == HAB_RSEQ_RESTART;
	thread->counters.conflicts += result == HAB_RSEQ_CONFLICT;
}

int hab_take(struct hab_heap *heap, struct hab_thread *thread, uint64_t least, uint64_t want,
	     struct hab_chunk *chunk)
{
	enum hab_rseq_result result = HAB_RSEQ_EMPTY;

	if (hab_tls_at(heap->tlab_offset)->thread)
		result = heap->shared ? take_exactly(heap, want, true, chunk) :
					take_exactly(heap, want, false, chunk);
	if (result == HAB_RSEQ_DONE)
		return 0;
	count_failure(thread, result);
	return take_slowly(heap, thread, least, want, chunk);
}

/* Called last and with the caller's arguments: that costs it no register. */
__attribute__((noinline, cold)) static int chunk_take_slowly(struct hab_heap *heap, size_t size,
							     struct hab_chunk *chunk,
							     enum hab_rseq_result result)
{
	struct hab_thread *thread;

	if (!size)
		return -EINVAL;
	thread = hab_thread_get(heap);
	if (!thread)
		return -ENOMEM;
	thread->entry = (uintptr_t)__builtin_dwarf_cfa();
	count_failure(thread, result);
	return take_slowly(heap, thread, size, size, chunk);
}

static inline __attribute__((always_inline)) int chunk_take(struct hab_heap *heap, size_t size,
							    bool shared, struct hab_chunk *chunk)
{
	enum hab_rseq_result result;

	if (__builtin_expect(!hab_tls_at(heap->tlab_offset)->thread, 0))
		return chunk_take_slowly(heap, size, chunk, HAB_RSEQ_EMPTY);
	result = take_exactly(heap, size, shared, chunk);
	if (__builtin_expect(result != HAB_RSEQ_DONE, 0))
		return chunk_take_slowly(heap, size, chunk, result);
	return 0;
}

int hab_chunk_take_own(struct hab_heap *heap, size_t size, struct hab_chunk *chunk)
{
	return chunk_take(heap, size, false, chunk);
}

int hab_chunk_take_shared(struct hab_heap *heap, size_t size, struct hab_chunk *chunk)
{
	return chunk_take(heap, size, true, chunk);
}

int hab_chunk_take(struct hab_heap *heap, size_t size, struct hab_chunk *chunk)
{
	return heap->take(heap, size, chunk);
}
