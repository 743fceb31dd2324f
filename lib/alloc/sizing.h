/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * How large a thread's next TLAB is.
 *
 * Fixed: as configured. Growing: HotSpot's rule (gc/shared/threadLocalAllocBuffer.cpp),
 * a reset being the collection: a thread gets what makes it refill 50 times until the
 * next one, by its share in what was allocated so far. Auto: a TLAB that lasts less than some
 * hundred times what its refill took is followed by one of twice the size, within what
 * all threads together may hold, and four times that while the arena is free.
 */
#ifndef HAB_LIB_SIZING_H
#define HAB_LIB_SIZING_H

#include <stddef.h>
#include <stdint.h>

struct hab_heap;
struct hab_thread;

/**
 * struct hab_sizing - a thread's part of it
 * @share: of the heap's allocation that is the thread's, averaged, in 1/2^32
 * @samples: collections that went into @share
 * @refills: since the last reset
 * @allocated: the thread's allocated bytes at the last reset
 * @entered: when the last refill began, in nanoseconds
 * @refilled_at: when it was done
 * @took: how long that was
 */
struct hab_sizing {
	uint64_t share;
	uint32_t samples;
	uint32_t refills;
	uint64_t allocated;
	uint64_t entered;
	uint64_t refilled_at;
	uint64_t took;
};

/* A new record, registry lock held. */
void hab_sizing_start(struct hab_thread *thread);

/* A refill for an object of @bytes: how large is the TLAB to be? At least @bytes. */
size_t hab_sizing_next(const struct hab_heap *heap, struct hab_thread *thread, size_t bytes);

/* That refill is done. */
void hab_sizing_refilled(const struct hab_heap *heap, struct hab_thread *thread);

/* A reset, before the books forget; TLABs are retired, registry lock held. */
void hab_sizing_collect(struct hab_heap *heap);

#endif /* HAB_LIB_SIZING_H */
