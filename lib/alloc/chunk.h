/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
#ifndef HAB_LIB_CHUNK_H
#define HAB_LIB_CHUNK_H

#include "lib/thread.h"

/**
 * hab_take - a chunk for the calling thread
 * @heap: the heap
 * @thread: the calling thread in it
 * @least: smallest size that serves in bytes, not 0
 * @want: requested size
 * @chunk: the result
 *
 * Return: 0 or -ENOMEM.
 */
int hab_take(struct hab_heap *heap, struct hab_thread *thread, uint64_t least, uint64_t want,
	     struct hab_chunk *chunk);

/* Chooses hab_chunk_take() and hab_chunk_take_base() for what the heap's words belong to. */
void hab_take_choose(struct hab_heap *heap);

#endif /* HAB_LIB_CHUNK_H */
