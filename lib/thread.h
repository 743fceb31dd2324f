/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * A thread inside a heap, one struct hab_thread for each thread that uses it: its TLAB and its
 * counters.
 */
#ifndef HAB_LIB_THREAD_H
#define HAB_LIB_THREAD_H

#include "wire/sampling.h"
#include "lib/heap.h"

/**
 * struct hab_tlab - all that the fast path of hab_alloc() needs
 * @position: free bytes, negated, minus 1. It reaches -1 when the TLAB is full, so one addition
 *	moves it, and its carry shows that the object does not fit
 * @limit: first address behind the TLAB, plus 1
 * @mask: the alignment of objects, minus 1
 * @thread: the thread in this heap, if it takes chunks by the sections of the fast path;
 *	&hab_no_thread before its first use of the heap, and in the TLAB that stands for all heaps
 *	without a TLAB in thread-local storage
 *
 * @position + @limit is the address of the next object. An empty TLAB has position -1 and a
 * limit that makes the address of 0 bytes a valid one.
 */
struct hab_tlab {
	uint64_t position;
	uint64_t limit;
	uint64_t mask;
	struct hab_thread *thread;
};

/**
 * struct hab_sizing - what the size of the next TLAB depends on
 * @share: average share of the heap's allocation that is the thread's, in 1/2^32
 * @samples: resets that went into @share
 * @refills: since the last reset
 * @allocated: the thread's allocated bytes at the last reset
 * @entered: when the last refill began, in nanoseconds
 * @refilled_at: when it ended
 * @took: how long it took
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

/**
 * struct hab_thread - a thread in a heap
 * @heap: the heap; NULL once it was destroyed
 * @tlab: the TLAB in use, in thread-local storage or @own_tlab
 * @start: where the TLAB begins
 * @end: where it ends; the limit in @tlab may lie before it, at a sample point
 * @waste_limit: with more free bytes than this the TLAB is kept, and the object gets a chunk of
 *	its own
 * @entry: the caller's stack pointer at its call of the library
 * @tlab_bytes: size of the next TLAB, a multiple of HAB_GRANULE; 0 without TLABs
 * @closes: closes of regions
 * @sampling: inside a sample handler
 * @sections: the thread takes chunks by rseq sections
 * @counters: written by the thread only
 * @sizing: see there
 * @own_tlab: for heaps beyond those with a TLAB in thread-local storage
 * @objects: samples of objects
 * @pass_end: until @objects.counted reaches this the sampler need not be called; 0: at each slow
 *	path
 * @look_at: before @objects.counted reaches this the sampler looks whether the interval has changed
 * @chunks: samples of chunks of hab_chunk_take()
 * @chunk_bytes_left: counted down by its fast path; below 0 the sampler looks at the chunk
 * @nr_domains: the fast path takes from words of lower domain ids; 0 in &hab_no_thread
 * @chunk_bytes_set: value of @chunk_bytes_left when it was last set
 * @counted: address in the TLAB up to which @objects is counted
 * @random: state of the sampler's generator
 * @reported: restarts and waste of @counters that refills have reported
 * @next: in the heap's list
 * @previous: the pointer that points here
 *
 * A refill touches the first two cache lines only, because objects evict the others.
 */
struct hab_thread {
	struct hab_heap *heap;
	struct hab_tlab *tlab;
	uintptr_t start;
	uintptr_t end;
	size_t waste_limit;
	uintptr_t entry;
	size_t tlab_bytes;
	uint32_t closes;
	bool sampling;
	bool sections;
	struct hab_counters counters __attribute__((aligned(64)));
	int64_t chunk_bytes_left;
	uint32_t nr_domains;
	struct hab_sizing sizing;
	struct hab_tlab own_tlab;
	struct hab_sampling objects;
	uint64_t pass_end;
	uint64_t look_at;
	struct hab_sampling chunks;
	int64_t chunk_bytes_set;
	uintptr_t counted;
	uint64_t random;
	struct {
		uint64_t restarts;
		uint64_t waste_bytes;
	} reported;
	struct hab_thread *next;
	struct hab_thread **previous;
};

extern struct hab_thread hab_no_thread;

/* Address of the thread's next object; meaningless if the TLAB is empty. */
static inline uintptr_t hab_thread_top(const struct hab_thread *thread)
{
	return __atomic_load_n(&thread->tlab->position, __ATOMIC_RELAXED) +
	       __atomic_load_n(&thread->tlab->limit, __ATOMIC_RELAXED);
}

/* Free bytes of the TLAB. */
static inline uint64_t hab_thread_left(const struct hab_thread *thread)
{
	return thread->end ? thread->end - hab_thread_top(thread) : 0;
}

/* The TLAB is [start, end) from now on. hab_heap_stats() reads both in another thread. */
static inline void hab_thread_set_range(struct hab_thread *thread, uintptr_t start, uintptr_t end)
{
	__atomic_store_n(&thread->start, start, __ATOMIC_RELEASE);
	__atomic_store_n(&thread->end, end, __ATOMIC_RELEASE);
}

/* The fast path may use [top, end) from now on. */
static inline void hab_tlab_open(struct hab_tlab *tlab, uintptr_t top, uintptr_t end)
{
	tlab->limit = end + 1;
	tlab->position = top - end - 1;
}

/*
 * The lock of the list of heaps, of each heap's list of threads, and of the counters of exited
 * threads. No memory is taken from a heap while it is held.
 */
void hab_thread_lock(void);
void hab_thread_unlock(void);

/*
 * The lock of those that take whole lists of free chunks: collections, trims, resets. It is taken
 * before the one above.
 */
void hab_collect_lock(void);
bool hab_collect_trylock(void);
void hab_collect_unlock(void);

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

#endif /* HAB_LIB_THREAD_H */
