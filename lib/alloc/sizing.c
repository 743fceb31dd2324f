// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The sizes of TLABs, in the modes that have any.
 *
 * Few of many threads may allocate. A thread's TLAB is bounded by its own share or its own rate and
 * not by an even split, so idle threads hold little and busy ones get enough.
 */
#include "core/hierarchy/block_size.h"
#include "lib/alloc/sizing.h"
#include "lib/clock.h"

/* HotSpot's TLABAllocationWeight, MinTLABSize, and 100 / (2 * TLABWasteTargetPercent). */
#define WEIGHT	       35
#define GROWING_LEAST  2048
#define TARGET_REFILLS 50

#define AUTO_LEAST     1024

#define ONE	       (1ull << 32)

static size_t clamp_size(size_t size, size_t least, size_t most)
{
	size = size < most ? size : most;
	size = size > least ? size : least;
	return (size + HAB_GRANULE - 1) & ~(HAB_GRANULE - 1);
}

static uint32_t nr_threads(const struct hab_heap *heap)
{
	uint32_t nr = __atomic_load_n(&heap->nr_threads, __ATOMIC_RELAXED);

	return nr ? nr : 1;
}

void hab_sizing_start(struct hab_thread *thread)
{
	struct hab_heap *heap = thread->heap;

	switch (heap->tlab_mode) {
	case HAB_TLABS_FIXED:
		thread->tlab_bytes = heap->tlab_bytes;
		break;
	case HAB_TLABS_NONE:
		break;
	case HAB_TLABS_GROWING:
		/* All threads alike until a reset has measured their shares. */
		thread->tlab_bytes =
			clamp_size(heap->arena_bytes / TARGET_REFILLS / nr_threads(heap),
				   GROWING_LEAST, heap->tlab_limit);
		break;
	case HAB_TLABS_AUTO:
		thread->tlab_bytes = AUTO_LEAST;
		break;
	}
	thread->waste_limit = thread->tlab_bytes / 64;
}

/* A thread that refills more often than the target gets up to 16 times as much. */
static size_t boosted(const struct hab_thread *thread)
{
	uint32_t refills = thread->sizing.refills;
	uint32_t excess = refills > TARGET_REFILLS ? refills - TARGET_REFILLS : 0;

	return thread->tlab_bytes << (excess / 8 < 4 ? excess / 8 : 4);
}

/*
 * The largest TLAB of mode auto. The position of the last TLAB shows how much of the arena is used
 * up.
 */
static size_t largest_auto(const struct hab_heap *heap, const struct hab_thread *thread)
{
	size_t share = heap->tlab_limit / nr_threads(heap), free = heap->arena_bytes;
	size_t used = thread->start ? thread->start - (uintptr_t)heap->arena : 0;

	/* A child's first TLAB may be its parent's, in another arena. */
	free -= used < free ? used : 0;
	return hab_growth_largest(share, free, heap->arena_bytes);
}

static void follow_rate(const struct hab_heap *heap, struct hab_thread *thread)
{
	struct hab_sizing *sizing = &thread->sizing;

	sizing->entered = hab_clock_ns();
	thread->tlab_bytes =
		clamp_size(hab_growth_next(thread->tlab_bytes,
					   sizing->entered - sizing->refilled_at, sizing->took),
			   AUTO_LEAST, largest_auto(heap, thread));
}

void hab_sizing_refilled(const struct hab_heap *heap, struct hab_thread *thread)
{
	struct hab_sizing *sizing = &thread->sizing;

	if (heap->tlab_mode != HAB_TLABS_AUTO)
		return;
	sizing->refilled_at = hab_clock_ns();
	sizing->took = sizing->refilled_at - sizing->entered;
}

size_t hab_sizing_next(const struct hab_heap *heap, struct hab_thread *thread, size_t bytes)
{
	size_t size;

	switch (heap->tlab_mode) {
	case HAB_TLABS_GROWING:
		thread->sizing.refills++;
		size = clamp_size(boosted(thread) + bytes, GROWING_LEAST, heap->tlab_limit);
		break;
	case HAB_TLABS_AUTO:
		follow_rate(heap, thread);
		size = thread->tlab_bytes;
		break;
	default:
		size = thread->tlab_bytes;
		break;
	}
	return size > bytes ? size : bytes;
}

static uint64_t used_bytes(struct hab_heap *heap)
{
	struct hab_ioc_stats books = { .size = sizeof(books) };

	if (heap->backend->stats(heap, &books))
		return 0;
	return heap->arena_bytes - books.levels[0].free_bytes;
}

/* The average moves by 35 percent, faster while there are few samples. */
static void add_sample(struct hab_sizing *sizing, uint64_t share)
{
	uint32_t weight;

	sizing->samples++;
	weight = 100 / sizing->samples > WEIGHT ? 100 / sizing->samples : WEIGHT;
	sizing->share = (sizing->share * (100 - weight) + share * weight) / 100;
}

void hab_sizing_collect(struct hab_heap *heap)
{
	struct hab_thread *thread;
	uint64_t used, mine;

	if (heap->tlab_mode != HAB_TLABS_GROWING)
		return;
	used = used_bytes(heap);
	for (thread = heap->threads; thread; thread = thread->next) {
		struct hab_sizing *sizing = &thread->sizing;

		mine = thread->counters.allocated_bytes - sizing->allocated;
		sizing->allocated = thread->counters.allocated_bytes;
		sizing->refills = 0;
		/* If most of the heap is free at a reset, shares were not measured. */
		if (used <= heap->arena_bytes / 2)
			continue;
		add_sample(sizing,
			   mine < used ? (uint64_t)((unsigned __int128)mine * ONE / used) : ONE);
		thread->tlab_bytes = clamp_size((unsigned __int128)heap->arena_bytes *
							sizing->share / ONE / TARGET_REFILLS,
						GROWING_LEAST, heap->tlab_limit);
	}
}
