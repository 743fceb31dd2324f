/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Memory that a heap does not need goes back to the system.
 *
 * What was not used for a second counts as not needed. A chunk in a list has the time when it was
 * freed, and lists are stacks: so the chunks that were not used are the lower ones. They are
 * joined to extents, and the memory of these goes back. Large extents are returned to the books, so
 * that refills take them before new memory; the others wait for large objects and for a collection.
 *
 * The list of a CPU is only cut by a thread on that CPU, chunk by chunk in sections: else a chunk
 * could be first again with another link behind it, and a section that read the former link would
 * commit it. From elsewhere a list can only be taken as a whole, which is done if all of it is old.
 *
 * The close of a region trims, once a second at most. For a program that stops closing regions
 * HAB_HEAP_TRIM_THREAD or hab_heap_trim() does.
 *
 * At a reset all memory is free: what lies beyond the part of the arena that was in use at the
 * resets before goes back.
 */
#ifndef HAB_LIB_ALLOC_TRIM_H
#define HAB_LIB_ALLOC_TRIM_H

#include "lib/thread.h"

/* So many extents at most are returned to the system by one trim that nobody has asked for. */
#define HAB_TRIM_CALLS 512u

/* The time in ticks of 17 ms; never HAB_TRIMMED. */
u32 hab_trim_now(void);

/*
 * Before @thread closes a region: the time for chunks that are freed from now on. Trims if no close
 * has done so within a second: true then.
 */
bool hab_trim_look(struct hab_heap *heap, struct hab_thread *thread);

/**
 * hab_trim - return what was not used for a second
 * @heap: the heap
 * @thread: the calling thread in it; NULL: lists of which a part was used stay whole
 * @now: hab_trim_now()
 * @calls: the most extents that are returned to the system
 *
 * hab_collect_lock() is held. Threads allocate and close regions meanwhile.
 */
void hab_trim(struct hab_heap *heap, struct hab_thread *thread, u32 now, u32 calls);

/**
 * hab_trim_reset_locked - what a reset returns
 * @heap: the heap; its books are empty, and no thread uses it
 * @used: bytes from the beginning of the arena that were handed out before the reset
 * @from: set to the offset in the arena from which memory goes back
 *
 * Both locks are held. hab_trim_range() returns the memory when they are not.
 *
 * Return: the offset to which, @from if there is nothing.
 */
u64 hab_trim_reset_locked(struct hab_heap *heap, u64 used, u64 *from);

/* Returns memory of the arena to the system, and counts it if the system has taken it. */
void hab_trim_range(struct hab_heap *heap, u64 from, u64 to);

#endif /* HAB_LIB_ALLOC_TRIM_H */
