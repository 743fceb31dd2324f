/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What a thread keeps for each heap: its TLAB and its counters.
 */
#ifndef HAB_LIB_THREAD_H
#define HAB_LIB_THREAD_H

#include "lib/alloc/heap.h"
#include "lib/alloc/sizing.h"

/* Heaps with a TLAB in thread-local storage; later ones are a few loads slower. */
#define HAB_FAST_SLOTS 24

/**
 * struct hab_tlab - what the fast path needs
 * @position: free bytes, negated, minus 1: it reaches -1 when the TLAB is full, so
 *	one addition both moves it and, by its carry, tells that it did not fit
 * @limit: first address behind the TLAB, plus 1
 * @thread: the record it belongs to, if that thread takes chunks by the sections of the
 *	fast path; NULL before its first use of the heap, and in the one that stands for
 *	all heaps without a TLAB in thread-local storage
 *
 * @position + @limit is the address of the next object. An empty TLAB has position
 * -1 and a limit that makes the address of 0 bytes a valid one.
 */
struct hab_tlab {
	uint64_t position;
	uint64_t limit;
	struct hab_thread *thread;
};

/**
 * struct hab_thread - a thread's record in a heap
 * @heap: which heap; NULL once it was destroyed
 * @tlab: the TLAB in use, in thread-local storage or @own_tlab
 * @start: where the TLAB begins
 * @end: where it really ends; @tlab->limit may lie before it, at a sample point
 * @waste_limit: a rest above this is kept, and the object allocated outside
 * @entry: the caller's stack pointer where it called the library
 * @tlab_bytes: size of the next TLAB, a multiple of HAB_GRANULE; 0 without TLABs
 * @sampler_on: the sampler was running when the TLAB was last looked at
 * @sampling: inside a sample handler
 * @sections: the thread can run rseq sections
 * @counters: written by the thread only
 * @sizing: where @tlab_bytes comes from
 * @own_tlab: for heaps beyond HAB_FAST_SLOTS
 * @until_sample: bytes to the next sample, counted down in the slow path
 * @since_sample: bytes since the last one
 * @counted: up to where in the TLAB those two are counted
 * @random: state of the sampler's generator
 * @told: restarts and waste of @counters that refills have told
 * @next: in the heap's list
 * @previous: the pointer that points here
 *
 * A refill touches the first two cache lines only: the objects push out the rest.
 */
struct hab_thread {
	struct hab_heap *heap;
	struct hab_tlab *tlab;
	uintptr_t start;
	uintptr_t end;
	size_t waste_limit;
	uintptr_t entry;
	size_t tlab_bytes;
	bool sampler_on;
	bool sampling;
	bool sections;
	struct hab_counters counters __attribute__((aligned(64)));
	struct hab_sizing sizing;
	struct hab_tlab own_tlab;
	uint64_t until_sample;
	uint64_t since_sample;
	uintptr_t counted;
	uint64_t random;
	struct {
		uint64_t restarts;
		uint64_t waste_bytes;
	} told;
	struct hab_thread *next;
	struct hab_thread **previous;
};

/* Address of the thread's next object; anything if the TLAB is empty. */
static inline uintptr_t hab_thread_top(const struct hab_thread *thread)
{
	return __atomic_load_n(&thread->tlab->position, __ATOMIC_RELAXED) +
	       __atomic_load_n(&thread->tlab->limit, __ATOMIC_RELAXED);
}

/* Lets the fast path use [top, end). */
static inline void hab_tlab_open(struct hab_tlab *tlab, uintptr_t top, uintptr_t end)
{
	tlab->limit = end + 1;
	tlab->position = top - end - 1;
}

/* Leaves it nothing. */
void hab_tlab_close(struct hab_tlab *tlab);

/**
 * hab_thread_get - the calling thread's record, made at the first call
 *
 * Return: NULL if there is no memory for it.
 */
struct hab_thread *hab_thread_get(struct hab_heap *heap);

/* Gives a heap its slot and fast path: 0, or -ENOMEM if there are too many heaps. */
int hab_thread_add_heap(struct hab_heap *heap);

/* Takes every thread's record of the heap away; registry lock held. */
void hab_thread_remove_heap(struct hab_heap *heap);

/* The TLAB is given up: what was used and what was not goes to the counters. */
void hab_thread_retire(struct hab_thread *thread);

/* In a forked child: the other threads are gone, what they counted is not. */
void hab_thread_forget_others(struct hab_heap *heap);

#endif /* HAB_LIB_THREAD_H */
