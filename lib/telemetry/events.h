/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Events of allocation: who listens, and telling them. Refills are not among them; the kernel
 * sees those itself.
 */
#ifndef HAB_LIB_EVENTS_H
#define HAB_LIB_EVENTS_H

#include "lib/alloc/thread.h"
#include "lib/telemetry/usdt.h"

/* For heaps whose backend has nobody to listen. */
extern const uint32_t hab_events_nobody;
extern const uint64_t hab_events_interval;

/* Bits HAB_LISTENER(kind): who listens now, to the kernel or to probes. For slow paths. */
static inline uint32_t hab_events_wanted(const struct hab_heap *heap)
{
	return __atomic_load_n(heap->listeners, __ATOMIC_RELAXED) | hab_usdt_wanted();
}

/**
 * hab_events_raise - tell of an allocation
 * @thread: whose; its TLAB is in order and may be used
 * @kind: HAB_EVENT_TLAB, HAB_EVENT_OUTSIDE or HAB_EVENT_SAMPLE
 * @bytes: as in struct hab_event
 * @chunk_bytes: likewise
 * @object_bytes: likewise
 *
 * If the event is kept as a sample the thread sends its stack. Sources: JFR's
 * jdk.ObjectAllocationInNewTLAB, jdk.ObjectAllocationOutsideTLAB; JVMTI's
 * SampledObjectAlloc.
 */
void hab_events_raise(struct hab_thread *thread, uint32_t kind, uint64_t bytes,
		      uint64_t chunk_bytes, uint64_t object_bytes);

#endif /* HAB_LIB_EVENTS_H */
