/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The byte-interval sampler of a thread.
 *
 * It costs the fast path nothing: a TLAB whose thread is sampled ends, for the
 * fast path, at the next sample point, and the slow path knows the true end.
 * Source: HotSpot gc/shared/threadLocalAllocBuffer.cpp and
 * threadHeapSampler.cpp, JVMTI SetHeapSamplingInterval.
 */
#ifndef HAB_LIB_SAMPLER_H
#define HAB_LIB_SAMPLER_H

#include "lib/telemetry/events.h"

/* Has the slow path anything to do with the sampler? */
static inline bool hab_sampler_concerned(const struct hab_thread *thread)
{
	return thread->sampler_on ||
	       __atomic_load_n(&thread->heap->sample_handler, __ATOMIC_RELAXED) ||
	       (hab_events_wanted(thread->heap) & HAB_LISTENER(HAB_EVENT_SAMPLE));
}

/* Shows the fast path @thread's TLAB from @top, up to its end or the sample point. */
void hab_sampler_open(struct hab_thread *thread, uintptr_t top);

/* Counts what the fast path has allocated since hab_sampler_open(). */
void hab_sampler_count(struct hab_thread *thread);

/**
 * hab_sampler_allocated - an object was allocated by the slow path
 * @thread: whose; hab_sampler_count() was called before the allocation
 * @address: the object
 * @size: as asked for
 * @counted: bytes it takes
 *
 * Calls the handler, and tells the listeners, if the sample point lies within the object.
 */
void hab_sampler_allocated(struct hab_thread *thread, void *address, size_t size, size_t counted);

#endif /* HAB_LIB_SAMPLER_H */
