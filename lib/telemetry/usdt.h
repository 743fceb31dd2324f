/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Static probes (USDT), the two that OpenTelemetry's profiler uses. A probe is a nop. A tracer
 * raises the probe's semaphore, and the library skips probes whose semaphore is 0.
 *
 *   otel_memory:alloc   address, size, bytes it stands for
 *   otel_memory:free    address of an object that otel_memory:alloc has reported
 */
#ifndef HAB_LIB_USDT_H
#define HAB_LIB_USDT_H

#include "lib/heap.h"

/* Raised by tracers; sys/sdt.h prescribes the names. */
extern volatile unsigned short otel_memory_alloc_semaphore, otel_memory_free_semaphore;

/*
 * A sampled object, for OpenTelemetry. Its address is kept until the heap is reset or destroyed; of
 * at most HAB_USDT_OBJECTS objects, and the free of later ones is not reported. A region keeps the
 * addresses of its own objects.
 */
#define HAB_USDT_OBJECTS 4096
void hab_usdt_object(struct hab_heap *heap, void *address, size_t size, uint64_t weight,
		     bool in_region);

/* true if otel_memory:alloc has a tracer, so that frees have to be reported. */
static inline bool hab_usdt_has_tracer(void)
{
	return otel_memory_alloc_semaphore;
}

/* Reports an object of a region as free. */
void hab_usdt_free(void *address);

/* Reports the heap's objects as free. No thread samples meanwhile. */
void hab_usdt_free_objects(struct hab_heap *heap);

#endif /* HAB_LIB_USDT_H */
