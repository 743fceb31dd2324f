/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The size of a thread's next TLAB.
 *
 * Fixed: as configured. Growing: HotSpot's rule (gc/shared/threadLocalAllocBuffer.cpp), a reset
 * being the collection: by the thread's share of what was allocated so far, so that it refills 50
 * times until the next reset. Auto: core/hierarchy/block_size.h, as for buffers.
 */
#ifndef HAB_LIB_SIZING_H
#define HAB_LIB_SIZING_H

#include "lib/thread.h"

/* The first size; lock of the threads held. */
void hab_sizing_start(struct hab_thread *thread);

/* The size of the TLAB that a refill for an object of @bytes takes; at least @bytes. */
size_t hab_sizing_next(const struct hab_heap *heap, struct hab_thread *thread, size_t bytes);

/* Called after the refill of a size from hab_sizing_next(). */
void hab_sizing_refilled(const struct hab_heap *heap, struct hab_thread *thread);

/* At a reset, before the books are emptied. All TLABs are retired; lock of the threads held. */
void hab_sizing_collect(struct hab_heap *heap);

#endif /* HAB_LIB_SIZING_H */
