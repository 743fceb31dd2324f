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

#include "chunk.h"
#include "rseq.h"
#include "stack.h"

/* Tests put delays here, where a thread is easily moved. */
#ifndef HAB_INJECT_BEFORE_SECTION
#define HAB_INJECT_BEFORE_SECTION()
#endif

static uint64_t granules(uint64_t bytes)
{
	return (bytes >> HAB_GRANULE_SHIFT) + !!(bytes & (HAB_GRANULE - 1));
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

	for (;;) {
		cpu = hab_rseq_cpu(area);
		if (cpu >= heap->nr_cpus)
			return false;
		domain = __atomic_load_n(&heap->domains[cpu], __ATOMIC_RELAXED);
		if (domain == HAB_DOMAIN_NONE)
			return false;
		HAB_INJECT_BEFORE_SECTION();
		switch (run_section(heap, area, cpu, hab_heap_word(heap, domain), &take)) {
		case HAB_RSEQ_DONE:
			if (heap->verify) {
				cpu = take.hardware_cpu;
				check_domain(heap, thread, cpu, domain);
			}
			chunk->base = heap->arena + (HAB_WORD_TOP(take.old) << HAB_GRANULE_SHIFT);
			chunk->size = take.taken << HAB_GRANULE_SHIFT;
			chunk->cpu = cpu;
			chunk->domain = domain;
			chunk->level = heap->nr_levels;
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
}

static int take_by_refill(struct hab_heap *heap, struct hab_thread *thread, uint64_t least,
			  uint64_t want, struct hab_chunk *chunk)
{
	struct hab_refill refill = {
		.size = sizeof(refill),
		.min_bytes = least,
		.want_bytes = want,
	};
	int err = heap->backend->refill(heap, thread, &refill);

	if (err)
		return err;
	if (refill.granted_bytes) {
		thread->counters.refills++;
		thread->counters.refill_bytes += refill.granted_bytes;
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

int hab_take(struct hab_heap *heap, struct hab_thread *thread, uint64_t least, uint64_t want,
	     struct hab_chunk *chunk)
{
	bool small = least <= heap->levels[heap->nr_levels - 1].bytes;
	int err;

	/* No buffer is that large, and beyond it granules would not fit their bits. */
	if (least > heap->arena_bytes)
		return -ENOMEM;
	do {
		if (small && thread->sections && take_from_word(heap, thread, least, want, chunk))
			err = 0;
		else
			err = take_by_refill(heap, thread, least, want, chunk);
	} while (err == -EAGAIN);
	if (err)
		return err;
	thread->counters.chunks++;
	thread->counters.chunk_bytes += chunk->size;
	return 0;
}

int hab_chunk_take(struct hab_heap *heap, size_t size, struct hab_chunk *chunk)
{
	struct hab_thread *thread;

	if (!size)
		return -EINVAL;
	thread = hab_thread_get(heap);
	if (!thread)
		return -ENOMEM;
	thread->entry = (uintptr_t)__builtin_dwarf_cfa();
	return hab_take(heap, thread, size, size, chunk);
}
