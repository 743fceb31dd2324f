/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * How large a thread's next TLAB is.
 *
 * Fixed: as configured. Growing: HotSpot's rule (gc/shared/threadLocalAllocBuffer.cpp),
 * a reset being the collection: a thread gets what makes it refill 50 times until the
 * next one, by its share in what was allocated so far. Auto: a TLAB that lasts a very short
 * time is followed by one of twice the size, within what all threads may hold.
 */
#ifndef HAB_LIB_SIZING_H
#define HAB_LIB_SIZING_H

#include <stddef.h>
#include <stdint.h>

struct hab_heap;
struct hab_thread;

/**
 * struct hab_sizing - a thread's part of it
 * @desired: size of a TLAB, a multiple of HAB_GRANULE; 0 without TLABs
 * @share: of the heap's allocation that is the thread's, averaged, in 1/2^32
 * @samples: collections that went into @share
 * @refills: since the last reset
 * @allocated: the thread's allocated bytes at the last reset
 * @refilled_at: when it got its TLAB, in nanoseconds
 */
struct hab_sizing {
	size_t desired;
	uint64_t share;
	uint32_t samples;
	uint32_t refills;
	uint64_t allocated;
	uint64_t refilled_at;
};

/* A new record, registry lock held. */
void hab_sizing_start(struct hab_thread *thread);

/* Larger objects are allocated outside TLABs. */
size_t hab_sizing_size(const struct hab_heap *heap, const struct hab_thread *thread);

/* A refill for an object of @bytes: how large is the TLAB to be? At least @bytes. */
size_t hab_sizing_next(const struct hab_heap *heap, struct hab_thread *thread, size_t bytes);

/* A reset, before the books forget; TLABs are retired, registry lock held. */
void hab_sizing_collect(struct hab_heap *heap);

#endif /* HAB_LIB_SIZING_H */
