/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Static probes (USDT), the two that OpenTelemetry's profiler uses. A probe is a nop. A tracer
 * raises the probe's semaphore, and the libraries skip probes whose semaphore is 0.
 *
 *   otel_memory:alloc   address, size, bytes it stands for
 *   otel_memory:free    address of an object that otel_memory:alloc has reported
 */
#ifndef HAB_LIB_USDT_H
#define HAB_LIB_USDT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Raised by tracers; sys/sdt.h prescribes the names. */
extern volatile unsigned short otel_memory_alloc_semaphore
	__attribute__((visibility("hidden")));
extern volatile unsigned short otel_memory_free_semaphore __attribute__((visibility("hidden")));

/* true if otel_memory:alloc has a tracer, so that frees have to be reported. */
static inline bool hab_usdt_has_tracer(void)
{
	return otel_memory_alloc_semaphore;
}

/* Reports an object, or its end, if the probe has a tracer. */
void hab_usdt_alloc(void *address, size_t size, uint64_t weight);
void hab_usdt_free(void *address);

#endif /* HAB_LIB_USDT_H */
