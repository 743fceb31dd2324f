/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The free chunks of regions, see core/hierarchy/free_chunks.h for lists and inboxes.
 *
 * A chunk's home is the domain of the buffer that it is from, or the heap. A closed region's chunk
 * goes to the list of the CPU if that CPU is its home, else to its home's inbox. A region takes
 * from its CPU's list, then from the inboxes of the CPU's domain and of the heap, then from the
 * buffers. So a chunk is only handed out in its home, or through the heap.
 */
#ifndef HAB_LIB_ALLOC_LISTS_H
#define HAB_LIB_ALLOC_LISTS_H

#include "core/hierarchy/free_chunks.h"
#include "lib/thread.h"

/*
 * Size classes: 0 is a region's first chunk, 1 the others, and from 2 on objects that are too large
 * for these, four classes for each doubling. Larger chunks have no class, and go back to the heap's
 * books when their region is closed.
 */
#define HAB_CLASS_FIRST 0u
#define HAB_CLASS_NEXT	1u
#ifndef HAB_CLASSES /* explored tests have fewer */
#define HAB_CLASSES 32u
#endif
#define HAB_CLASS_NONE	      HAB_CLASSES

#define HAB_FIRST_CHUNK_BYTES (4ul << 10)
#define HAB_NEXT_CHUNK_BYTES  (32ul << 10)

/* The smallest class from 2 on whose chunks hold @bytes, or HAB_CLASS_NONE. */
uint32_t hab_class_of(uint64_t bytes);

/* The size of the class's chunks. */
uint64_t hab_class_bytes(uint32_t class);

/* Makes the lists of a heap whose backend is open: 0 or -ENOMEM. */
int hab_lists_create(struct hab_heap *heap);

void hab_lists_destroy(struct hab_heap *heap);

/* All chunks of regions die, free or not. No thread uses the heap; lock of the threads held. */
void hab_lists_reset_locked(struct hab_heap *heap);

/* The same in a forked child whose heap has another arena now. */
void hab_lists_reopen_locked(struct hab_heap *heap);

/* The inbox's index for a chunk of a buffer of @level, or of the heap for 0. */
uint32_t hab_lists_home(const struct hab_heap *heap, uint32_t level, uint32_t domain);

/**
 * hab_lists_take - a free chunk for the calling thread
 * @heap: the heap
 * @thread: the calling thread in it
 * @class: size class
 *
 * Return: NULL if there is none that this CPU may hand out.
 */
struct hab_free_chunk *hab_lists_take(struct hab_heap *heap, struct hab_thread *thread,
				      uint32_t class);

/**
 * hab_lists_put - chunks go home
 * @heap: the heap
 * @thread: the calling thread in it
 * @chain: chunks of one home and class; their heads may change
 * @bytes: their sum
 *
 * Any thread may call it, on any CPU.
 */
void hab_lists_put(struct hab_heap *heap, struct hab_thread *thread, struct hab_chunk_chain *chain,
		   uint64_t bytes);

/* Sets @collections, and corrects @free_chunk_bytes, which is the sum of all threads' counters. */
void hab_lists_stats(const struct hab_heap *heap, struct hab_heap_stats *stats);

/**
 * hab_lists_collect - the heap is full: return free chunks to its books
 * @heap: the heap
 * @least: bytes that a caller needs
 *
 * Adjacent chunks are joined first. Of what is left some of the largest extents of at least @least
 * bytes are returned, because the books keep few; if all regions are closed, all of them. The other
 * chunks go to the heap's inbox.
 *
 * Return: true if there is more free memory in the books now.
 */
bool hab_lists_collect(struct hab_heap *heap, uint64_t least);

#endif /* HAB_LIB_ALLOC_LISTS_H */
