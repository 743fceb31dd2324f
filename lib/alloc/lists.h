/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The free chunks of regions: a list for each home and size class.
 *
 * A chunk's home is the CPU on which it was taken, which is of its buffer's domain, or the heap. A
 * closed region's chunks go to the lists of their homes, and only the home CPU takes them from
 * there, newest first: so a chunk is only handed out on its home, or through the heap. With the
 * domain cid all this is said of concurrency ids instead of CPUs, and the home of a new chunk is
 * the id that its thread has after it was taken. When the heap is full all lists are collected:
 * their chunks go back to the heap's books, or to the heap's own lists, from which all CPUs take.
 * Chunks that were not used for a second are joined to extents, whose memory goes back to the
 * system (trim.h).
 *
 * No pop commits a link that is out of date (ABA), even if the first chunk was popped and pushed
 * again between the load of its link and the commit. Any CPU pushes, by cmpxchg. Only the home CPU
 * pops, in an rseq section that commits by cmpxchg. Collections and trims take whole lists by an
 * exchange, and put their chunks elsewhere.
 * So a chunk that was first when the section began, and was removed since, can only be first again
 * after it was taken on that CPU; and that has interrupted the section.
 *
 * The lists are the library's alone: the kernel neither has nor reads them.
 */
#ifndef HAB_LIB_ALLOC_LISTS_H
#define HAB_LIB_ALLOC_LISTS_H

#include "lib/alloc/free_chunk.h"
#include "lib/thread.h"

/* The smallest class from 2 on, or 1, whose chunks hold @bytes; or HAB_CLASS_NONE. */
u32 hab_class_of(u64 bytes);

#define HAB_LEAST_CLASS_BYTES (10ul << 10) /* of class 2 */

/* The largest class from 2 on whose chunks have at most @bytes, HAB_LEAST_CLASS_BYTES or more. */
u32 hab_class_within(u64 bytes);

/* The size of the class's chunks. */
u64 hab_class_bytes(u32 class);

/* Makes the lists of a heap whose backend is open: 0 or -ENOMEM. */
int hab_lists_create(struct hab_heap *heap);

void hab_lists_destroy(struct hab_heap *heap);

/* Forgets all chunks of regions, free or in use. No thread uses the heap; threads' lock held. */
void hab_lists_reset_locked(struct hab_heap *heap);

/* The same in a forked child whose heap has another arena now. */
void hab_lists_reopen_locked(struct hab_heap *heap);

/* Fills in the fields about free chunks; lock of the threads held. */
void hab_lists_stats_locked(const struct hab_heap *heap, struct hab_heap_stats *stats);

/* The home of chunks that any CPU may hand out. */
u32 hab_lists_heap_home(const struct hab_heap *heap);

/*
 * The home of the calling thread: its CPU or cid. For a chunk that the thread has taken just now: a
 * section of that CPU or cid that has read the chunk before, in the list there, is interrupted.
 */
u32 hab_lists_own_home(const struct hab_heap *heap);

/**
 * hab_lists_take - a free chunk for the calling thread
 * @heap: the heap
 * @thread: the calling thread in it
 * @class: size class
 *
 * Return: NULL if neither this CPU's list nor the heap's has one.
 */
struct hab_free_chunk *hab_lists_take(struct hab_heap *heap, struct hab_thread *thread, u32 class);

/**
 * hab_lists_take_extent - a free chunk for an object that is too large for all size classes
 * @heap: the heap
 * @bytes: of the chunk
 *
 * Return: NULL if the first few extents are all smaller.
 */
struct hab_free_chunk *hab_lists_take_extent(struct hab_heap *heap, u64 bytes);

/**
 * hab_lists_put - chunks go home
 * @heap: the heap
 * @first: the first of a chain of chunks of one home and class
 * @last: the last one; its link is not read
 *
 * Any thread may call it, on any CPU.
 */
void hab_lists_put(struct hab_heap *heap, struct hab_free_chunk *first,
		   struct hab_free_chunk *last);

/* Grows whenever memory was returned to the books. */
u64 hab_lists_returns(const struct hab_heap *heap);

/**
 * hab_lists_collect - the heap is full: return free chunks to its books
 * @heap: the heap
 * @least: bytes that a caller needs
 * @before: hab_lists_returns() before the heap was found full
 *
 * Adjacent chunks are joined first. Of what is left some of the largest extents of at least @least
 * bytes are returned, because the books keep few; if all regions are closed, all of them. The other
 * chunks go to the heap's lists.
 *
 * Return: true if there may be more free memory in the books now.
 */
bool hab_lists_collect(struct hab_heap *heap, u64 least, u64 before);

#endif /* HAB_LIB_ALLOC_LISTS_H */
