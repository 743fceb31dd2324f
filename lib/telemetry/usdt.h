/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Static probes (USDT): the same events for tracers on machines without the module, and the two
 * that OpenTelemetry's profiler uses. A probe is a nop. A tracer raises the probe's semaphore, and
 * the library skips probes whose semaphore is 0.
 *
 *   hab:refill       heap, bytes, chunk_bytes, cpu, domain, level, restarts, waste_bytes
 *                    (process backend only)
 *   hab:tlab         heap, tag, bytes, chunk_bytes, object_bytes, allocated_bytes
 *   hab:outside      the same
 *   hab:sample       the same, interval, frames, nr_frames
 *   otel_memory:alloc   address, size, bytes it stands for
 *   otel_memory:free    address of an object that otel_memory:alloc has reported
 *
 * heap and tag are strings, frames points to the thread's return addresses, numbers as in struct
 * hab_event of uapi/hab.h.
 */
#ifndef HAB_LIB_USDT_H
#define HAB_LIB_USDT_H

#include "lib/heap.h"

/* Raised by tracers; sys/sdt.h prescribes the names. */
extern volatile unsigned short hab_refill_semaphore, hab_tlab_semaphore, hab_outside_semaphore,
	hab_sample_semaphore, otel_memory_alloc_semaphore, otel_memory_free_semaphore;

/* true if events of @kind, which the library reports, have a tracer. */
static inline bool hab_usdt_listens(uint32_t kind)
{
	if (kind == HAB_EVENT_TLAB)
		return hab_tlab_semaphore;
	if (kind == HAB_EVENT_OUTSIDE)
		return hab_outside_semaphore;
	return hab_sample_semaphore || otel_memory_alloc_semaphore;
}

/* true if hab:sample has a tracer: it gets the stack with the probe. */
static inline bool hab_usdt_wants_stacks(void)
{
	return hab_sample_semaphore;
}

/* A refill of the process backend. */
void hab_usdt_refill(const struct hab_heap *heap, const struct hab_ioc_refill *refill);

/* An event of another kind. */
void hab_usdt_report(const struct hab_heap *heap, const struct hab_ioc_report *report);

/*
 * A sampled object, for OpenTelemetry. Its address is kept until the heap is reset or destroyed; of
 * at most HAB_USDT_OBJECTS objects, and the free of later ones is not reported. A region keeps the
 * addresses of its own objects.
 */
#define HAB_USDT_OBJECTS 4096
void hab_usdt_object(struct hab_heap *heap, void *address, size_t size, uint64_t weight,
		     bool in_region);

/* true if otel_memory:alloc has a tracer, so that frees have to be reported. */
static inline bool hab_usdt_keeps_objects(void)
{
	return otel_memory_alloc_semaphore;
}

/* Reports an object of a region as free. */
void hab_usdt_free(void *address);

/* Reports the heap's objects as free. No thread samples meanwhile. */
void hab_usdt_free_objects(struct hab_heap *heap);

#endif /* HAB_LIB_USDT_H */
