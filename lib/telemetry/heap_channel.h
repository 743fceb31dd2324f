/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The channel of a program with libhab, for its heaps of the process backend. If the preload
 * library is loaded, too, libhab uses its channel: a collector reads one channel of a process.
 *
 * libhab interposes nothing. So it does not see that the program sets a filter of system calls,
 * which may end the program for a call. Therefore only hab_heap_create() makes system calls for the
 * channel, and until it has found that there is no filter, only those that it makes in any case. In
 * a child with the preload library that library makes them, at a sample.
 */
#ifndef HAB_LIB_HEAP_CHANNEL_H
#define HAB_LIB_HEAP_CHANNEL_H

#include "lib/heap.h"

/* HAB_LISTENER(HAB_EVENT_SAMPLE) while there is a collector, for struct hab_heap. */
extern uint32_t hab_heap_channel_listeners;

/* The sampling interval, for struct hab_heap. */
extern uint64_t hab_heap_channel_interval;

/* true if the heap is of the process backend. */
static inline bool hab_heap_channel_has(const struct hab_heap *heap)
{
	return heap->listeners == &hab_heap_channel_listeners;
}

/* Looks for the preload library. It takes the dynamic linker's lock: no other lock is held. */
void hab_heap_channel_find_preload(void);

/*
 * A heap was made: looks for a collector if there is none, and sends it the mappings of libraries
 * that were loaded meanwhile. One thread at a time, and no fork() meanwhile.
 */
void hab_heap_channel_connect(void);

/* A thread has allocated so many bytes after its last sample, and no sample follows. */
void hab_heap_channel_count(const struct hab_heap *heap, uint64_t bytes);

/* In a child by fork(). */
void hab_heap_channel_after_fork(void);

/* The backend's report(): writes a sample to the channel. */
int hab_heap_channel_report(struct hab_heap *heap, struct hab_ioc_report *report);

/* A sample was taken; @drawn: its interval. */
void hab_heap_channel_offer(const struct hab_heap *heap, uint64_t drawn);

/* Sets the interval anew if a window is over. In slow paths; @random: uniform bits. */
void hab_heap_channel_look(const struct hab_heap *heap, uint64_t random);

/*
 * The end of the calling thread's stack, for hab_unwind(); @entry: a place in it. It is that of a
 * coroutine if it is not the thread's own, and then no more is known than @entry. 0: pages may be
 * tried, because the heap has another backend.
 */
uintptr_t hab_heap_channel_stack_end(const struct hab_heap *heap, uintptr_t entry);

#endif /* HAB_LIB_HEAP_CHANNEL_H */
