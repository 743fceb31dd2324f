// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The sizes of TLABs, in the three modes that have any.
 *
 * The hard case is many threads of which few allocate: what a thread may get is bounded
 * by its own share or its own rate, never by an even split, so the idle ones hold little
 * and the busy ones are not starved.
 */
#include <time.h>

#include "sizing.h"
#include "thread.h"

/* HotSpot's TLABAllocationWeight, MinTLABSize, and 100 / (2 * TLABWasteTargetPercent). */
#define WEIGHT	       35
#define GROWING_LEAST  2048
#define TARGET_REFILLS 50

/* A TLAB that lasts this long costs its refill's time well below one percent. */
#define AUTO_LEAST	 1024
#define AUTO_SHORT_NS	 20000u
#define AUTO_LONG_FACTOR 64

#define ONE		 (1ull << 32)

static size_t clamp_size(size_t size, size_t least, size_t most)
{
	size = size < most ? size : most;
	size = size > least ? size : least;
	return (size + HAB_GRANULE - 1) & ~(HAB_GRANULE - 1);
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ull + now.tv_nsec;
}

static uint32_t nr_threads(const struct hab_heap *heap)
{
	uint32_t nr = __atomic_load_n(&heap->nr_threads, __ATOMIC_RELAXED);

	return nr ? nr : 1;
}

void hab_sizing_start(struct hab_thread *thread)
{
	struct hab_heap *heap = thread->heap;
	struct hab_sizing *sizing = &thread->sizing;

	switch (heap->tlab_mode) {
	case HAB_TLABS_FIXED:
		sizing->desired = heap->tlab_bytes;
		break;
	case HAB_TLABS_NONE:
		break;
	case HAB_TLABS_GROWING:
		/* Until there is experience: all threads alike. */
		sizing->desired = clamp_size(heap->arena_bytes / TARGET_REFILLS / nr_threads(heap),
					     GROWING_LEAST, heap->tlab_limit);
		break;
	case HAB_TLABS_AUTO:
		sizing->desired = AUTO_LEAST;
		break;
	}
	thread->waste_limit = sizing->desired / 64;
}

size_t hab_sizing_size(const struct hab_heap *heap, const struct hab_thread *thread)
{
	/* A thread whose TLABs are still small does not want every object outside them. */
	if (heap->tlab_mode == HAB_TLABS_AUTO && thread->sizing.desired < heap->tlab_bytes)
		return heap->tlab_bytes;
	return thread->sizing.desired;
}

/* Once a thread refills more often than it should, by up to 16 times. */
static size_t boosted(const struct hab_sizing *sizing)
{
	uint32_t excess = sizing->refills > TARGET_REFILLS ? sizing->refills - TARGET_REFILLS : 0;

	return sizing->desired << (excess / 8 < 4 ? excess / 8 : 4);
}

static void follow_rate(const struct hab_heap *heap, struct hab_sizing *sizing)
{
	uint64_t now = now_ns();
	uint64_t age = now - sizing->refilled_at;
	size_t size = sizing->desired;

	if (age < AUTO_SHORT_NS)
		size *= 2;
	else if (age > (uint64_t)AUTO_SHORT_NS * AUTO_LONG_FACTOR)
		size /= 2;
	sizing->desired = clamp_size(size, AUTO_LEAST, heap->tlab_limit / nr_threads(heap));
	sizing->refilled_at = now;
}

size_t hab_sizing_next(const struct hab_heap *heap, struct hab_thread *thread, size_t bytes)
{
	struct hab_sizing *sizing = &thread->sizing;
	size_t size;

	sizing->refills++;
	if (heap->tlab_mode == HAB_TLABS_AUTO)
		follow_rate(heap, sizing);
	size = sizing->desired;
	if (heap->tlab_mode == HAB_TLABS_GROWING)
		size = clamp_size(boosted(sizing) + bytes, GROWING_LEAST, heap->tlab_limit);
	return size > bytes ? size : bytes;
}

static uint64_t used_bytes(struct hab_heap *heap)
{
	struct hab_stats books = { .size = sizeof(books) };

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
		/* A reset of a heap that is mostly empty tells nothing about shares. */
		if (used <= heap->arena_bytes / 2)
			continue;
		add_sample(sizing,
			   mine < used ? (uint64_t)((unsigned __int128)mine * ONE / used) : ONE);
		sizing->desired = clamp_size((unsigned __int128)heap->arena_bytes * sizing->share /
						     ONE / TARGET_REFILLS,
					     GROWING_LEAST, heap->tlab_limit);
	}
}
