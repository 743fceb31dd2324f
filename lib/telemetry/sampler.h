/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The byte-interval sampler of a thread.
 *
 * It costs the fast path nothing: for the fast path, the TLAB of a sampled thread ends at the next
 * sample point, and the slow path uses the true end. Source: HotSpot
 * gc/shared/threadLocalAllocBuffer.cpp and threadHeapSampler.cpp, JVMTI SetHeapSamplingInterval.
 */
#ifndef HAB_LIB_SAMPLER_H
#define HAB_LIB_SAMPLER_H

#include "lib/telemetry/events.h"
#include "wire/interval.h"

/* true if the slow path has to call the sampler. */
static inline bool hab_sampler_needed(const struct hab_thread *thread)
{
	return thread->objects.on ||
	       __atomic_load_n(&thread->heap->sample_handler, __ATOMIC_RELAXED) ||
	       (hab_event_has_listeners(thread->heap, HAB_EVENT_SAMPLE));
}

/* Before the heap is freed. */
void hab_sampler_free_handlers(struct hab_heap *heap);

/* Opens the TLAB to the fast path from @top up to its end or to the sample point. */
void hab_sampler_open(struct hab_thread *thread, uintptr_t top);

/* Counts the bytes that the fast path has allocated since hab_sampler_open(). */
static inline void hab_sampler_count(struct hab_thread *thread)
{
	uintptr_t top;

	if (!thread->end || !thread->objects.on)
		return;
	top = hab_thread_top(thread);
	hab_sampling_count(&thread->objects, top - thread->counted);
	thread->counted = top;
}

/* The interval to draw with. With a handler at least the default: the kernel's may be far below. */
static inline uint64_t hab_sampler_interval(const struct hab_heap *heap)
{
	int64_t own = __atomic_load_n(&heap->sampling_interval, __ATOMIC_RELAXED);
	uint64_t common = __atomic_load_n(heap->default_interval, __ATOMIC_RELAXED);

	if (own >= 0)
		return (uint64_t)own;
	if (common < HAB_SAMPLING_INTERVAL_DEFAULT &&
	    __atomic_load_n(&heap->sample_handler, __ATOMIC_RELAXED))
		return HAB_SAMPLING_INTERVAL_DEFAULT;
	return common;
}

/*
 * true if the sampler is on, and neither the next sample is among the next @bytes nor a look is due
 * in them. So it is for most TLABs and objects outside of them: they need no call of the sampler. A
 * call for the sample's sake is no look, see hab_sampling_draw().
 */
static inline bool hab_sampler_passes(const struct hab_thread *thread, uint64_t bytes)
{
	return thread->objects.counted + bytes < thread->pass_end;
}

/**
 * hab_sampler_allocated - an object was allocated by the slow path
 * @thread: the calling thread; hab_sampler_count() was called before the allocation
 * @address: the object
 * @size: as requested
 * @counted: bytes that it takes
 *
 * Calls the handler, and reports a sample, if the sample point lies within the object.
 */
void hab_sampler_allocated(struct hab_thread *thread, void *address, size_t size, size_t counted);

/**
 * hab_sampler_end - where the fast path has to stop in [@top, @end)
 * @thread: the calling thread
 * @sampling: of what is allocated there
 * @top: where its free memory begins, 16-byte aligned
 * @end: where that ends
 *
 * Return: @end, or an address before it if the next sample lies there.
 */
uintptr_t hab_sampler_end(struct hab_thread *thread, struct hab_sampling *sampling, uintptr_t top,
			  uintptr_t end);

/**
 * hab_sampler_region_allocated - an object of a region was allocated by the slow path
 * @thread: the calling thread
 * @sampling: the region's
 * @before: bytes that the region has allocated since it was looked at last, without the object
 * @address: the object
 * @size: as requested
 * @counted: bytes that it takes
 *
 * The distance to the next sample is the region's, because a region moves between threads. The
 * bytes since the last sample are the calling thread's, as the weight is.
 *
 * Return: true if the object was sampled.
 */
bool hab_sampler_region_allocated(struct hab_thread *thread, struct hab_sampling *sampling,
				  uint64_t before, void *address, size_t size, size_t counted);

/* A region is closed that has allocated @bytes since it was looked at last. */
void hab_sampler_region_closed(struct hab_thread *thread, const struct hab_sampling *sampling,
			       uint64_t bytes);

/**
 * hab_sampler_chunk - a chunk of hab_chunk_take() was taken, and @chunk_bytes_left is below 0
 * @thread: the calling thread
 * @chunk: the chunk
 *
 * As hab_sampler_allocated().
 */
void hab_sampler_chunk(struct hab_thread *thread, const struct hab_chunk *chunk);

/* The thread or its heap ends: the bytes since the last sample, which no sample follows, count. */
void hab_sampler_leave(struct hab_thread *thread);

/* In the slow path of hab_chunk_take(), before a chunk is taken: looks at the interval again. */
void hab_sampler_look(struct hab_thread *thread);

#endif /* HAB_LIB_SAMPLER_H */
