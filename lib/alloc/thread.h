/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The threads of a heap: one struct hab_thread for each thread that uses it.
 */
#ifndef HAB_LIB_ALLOC_THREAD_H
#define HAB_LIB_ALLOC_THREAD_H

#include "lib/thread.h"

/*
 * The lock of the list of heaps, of each heap's list of threads, and of the counters of exited
 * threads. No memory is taken from a heap while it is held.
 */
void hab_thread_lock(void);
void hab_thread_unlock(void);

/**
 * hab_thread_get - the calling thread in @heap, made at the first call
 * @heap: the heap
 *
 * Return: NULL if there is no memory.
 */
struct hab_thread *hab_thread_get(struct hab_heap *heap);

/* Gives a heap its slot and fast path: 0, or -ENOMEM if there are too many heaps. */
int hab_thread_add_heap(struct hab_heap *heap);

/* Ends all threads' use of the heap; lock held. */
void hab_thread_remove_heap_locked(struct hab_heap *heap);

/* Retires the TLAB: its used and unused bytes go to the counters. */
void hab_thread_retire(struct hab_thread *thread);

/* In a forked child: frees the state of the other threads, keeps their counts; lock held. */
void hab_thread_remove_others_locked(struct hab_heap *heap);

/* In a forked child, with the heap open: else all children draw the same samples. */
void hab_thread_draw_anew(struct hab_heap *heap);

#endif /* HAB_LIB_ALLOC_THREAD_H */
