/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The objects of heaps that otel_memory:alloc has reported. A region keeps those of its own. */
#ifndef HAB_LIB_USDT_OBJECTS_H
#define HAB_LIB_USDT_OBJECTS_H

#include "lib/heap.h"
#include "inside/usdt.h"

/* Of a heap, until it is reset or destroyed. The free of later ones is not reported. */
#define HAB_USDT_OBJECTS 4096

/* Reports a sampled object, and keeps its address unless it is @in_region. */
void hab_usdt_object(struct hab_heap *heap, void *address, size_t size, uint64_t weight,
		     bool in_region);
/* Reports the heap's objects as free. No thread samples meanwhile. */
void hab_usdt_free_objects(struct hab_heap *heap);

#endif /* HAB_LIB_USDT_OBJECTS_H */
