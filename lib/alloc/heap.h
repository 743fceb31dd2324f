/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What a heap is inside libhab.
 *
 * Three layers, each knowing only the one below: tlab.c bumps pointers and
 * decides when a thread needs memory; chunk.c takes a chunk inside a restartable
 * sequence; a backend (device.c or process.c) refills the buffers.
 *
 * Lists and counters that several threads see are under the lock of registry.h.
 */
#ifndef HAB_LIB_HEAP_H
#define HAB_LIB_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "uapi/hab.h"
#include "lib/hab.h"

struct hab_thread;

/**
 * struct hab_backend - who owns the buffers above the thread
 * @name: "device" or "process"
 * @open: sets up heap->words, ->domains, ->nr_cpus, ->arena, ->backend_data from
 *	heap->arena_bytes, ->levels, ->nr_levels, ->name; undoes all on error
 * @close: gives them back
 * @take: takes a chunk of so many granules in its own way instead of from the words; may
 *	be NULL
 * @refill: takes a chunk for the thread, refilling its CPU's buffer if need be;
 *	as HAB_IOC_REFILL, -EAGAIN included
 * @give_back: a part of the arena that was granted and is free again; in granules' bounds
 * @reset: empties all buffers
 * @stats: the books
 * @stack: sends the stack of a kept sample; may be NULL
 * @report: tells the kernel of an event, as HAB_IOC_REPORT; NULL where nobody can listen
 * @hold: before fork: no thread is inside the backend until @release; may be NULL
 * @release: after fork, in parent and child
 * @after_fork: in the child, whatever memory it did not inherit; may be NULL
 */
struct hab_backend {
	const char *name;
	int (*open)(struct hab_heap *heap);
	void (*close)(struct hab_heap *heap);
	int (*take)(struct hab_heap *heap, struct hab_thread *thread, uint64_t least, uint64_t want,
		    struct hab_chunk *chunk);
	int (*refill)(struct hab_heap *heap, struct hab_thread *thread, struct hab_ioc_refill *refill);
	int (*give_back)(struct hab_heap *heap, uint64_t offset, uint64_t bytes);
	int (*reset)(struct hab_heap *heap);
	int (*stats)(struct hab_heap *heap, struct hab_ioc_stats *stats);
	void (*stack)(struct hab_heap *heap, const struct hab_ioc_stack *stack);
	int (*report)(struct hab_heap *heap, struct hab_ioc_report *report);
	void (*hold)(struct hab_heap *heap);
	void (*release)(struct hab_heap *heap);
	void (*after_fork)(struct hab_heap *heap);
};

extern const struct hab_backend hab_device_backend;
extern const struct hab_backend hab_process_backend;
extern const struct hab_backend hab_tolerant_backend;

/* Can the process backend empty the buffers of CPUs that it does not run on? */
bool hab_process_collects(const struct hab_heap *heap);

enum hab_tlab_mode {
	HAB_TLABS_FIXED,
	HAB_TLABS_NONE,
	HAB_TLABS_GROWING,
	HAB_TLABS_AUTO,
};

/* Counters of one thread, or the sum over threads that have gone. */
struct hab_counters {
	uint64_t chunks;
	uint64_t chunk_bytes;
	uint64_t allocated_bytes; /* in retired TLABs and outside TLABs */
	uint64_t tlab_waste_bytes;
	uint64_t tlab_refills;
	uint64_t outside_allocations;
	uint64_t restarts;
	uint64_t conflicts;
	uint64_t refills;
	uint64_t refill_bytes;
	uint64_t foreign;
	uint64_t verified;
	uint64_t neighbours;
};

/**
 * struct hab_heap - a heap
 * @tlab_offset: of the heap's TLAB from the thread pointer; first, because
 *	hab_alloc() reads nothing else
 * @take: hab_chunk_take() for its kind of words
 * @rseq_offset: of the thread's rseq area from the thread pointer; up to @shared is what a
 *	take reads
 * @nr_cpus: CPU numbers are below this
 * @words: the lowest level's words
 * @arena: its memory
 * @domains: of the lowest level, by CPU
 * @nr_levels: configured levels
 * @shared: the words are moved with cmpxchg, because several CPUs share one; otherwise
 *	domain ids are CPU numbers
 * @sections: the lowest level's words are moved by rseq sections
 * @verify: with the hardware's CPU number read inside
 * @tlab_mode: how @tlab_bytes is to be taken
 * @tlab_bytes: size of fixed TLABs
 * @tlab_limit: no TLAB of another mode is larger; of all threads together in mode auto
 * @nr_threads: length of @threads
 * @sampling_interval: as hab_set_sampling_interval() has it, negative: @default_interval
 * @listeners: bits HAB_LISTENER(kind), changed by the kernel; set by the backend, or nobody
 * @default_interval: likewise
 * @usdt_objects: what otel_memory:alloc told of; NULL: nothing
 * @inherited: arenas of ancestors, which hold the objects from before a fork
 * @largest_in_tlab: smaller objects get a new TLAB rather than a chunk of their own
 * @lowest_bytes: size of the lowest level's buffers
 * @slot: index of the heap in each thread's table
 * @threads: records of the threads that use it, under the registry lock
 * @gone: counters of threads that exited, under the registry lock
 * @next: in the list of heaps, under the registry lock
 */
struct hab_heap {
	ptrdiff_t tlab_offset;
	int (*take)(struct hab_heap *heap, size_t size, struct hab_chunk *chunk);
	ptrdiff_t rseq_offset;
	uint32_t nr_cpus;
	int nr_levels;
	uint64_t *words;
	char *arena;
	const uint32_t *domains;
	bool shared;
	bool sections;
	bool verify;
	enum hab_tlab_mode tlab_mode;

	/* What refills of TLABs read as well. */
	size_t tlab_bytes;
	size_t largest_in_tlab;
	size_t lowest_bytes;
	size_t tlab_limit;
	hab_sample_fn sample_handler;
	void *sample_context;
	int64_t sampling_interval;
	const uint32_t *listeners;
	const uint64_t *default_interval;
	struct hab_usdt_objects *usdt_objects;

	size_t arena_bytes;
	uint32_t slot;
	const struct hab_backend *backend;
	void *backend_data;
	char reason[384];
	uint32_t flags;
	struct hab_level levels[HAB_MAX_LEVELS];
	char name[HAB_NAME_LEN];
	uint64_t resets;
	struct hab_inherited *inherited;
	struct hab_thread *threads;
	uint32_t nr_threads;
	struct hab_counters gone;
	struct hab_heap *next;
} __attribute__((aligned(64)));

/* The level next to the TLABs; the only tolerant heap without one has the heap there. */
static inline const struct hab_level *hab_heap_lowest(const struct hab_heap *heap)
{
	return &heap->levels[heap->nr_levels ? heap->nr_levels - 1 : 0];
}

/* The lowest level's word of a domain. */
static inline uint64_t *hab_heap_word(const struct hab_heap *heap, uint32_t domain)
{
	return &heap->words[(uint64_t)domain * (HAB_WORD_STRIDE / sizeof(uint64_t))];
}

/* Chooses and opens a backend; sets @reason. */
int hab_heap_open(struct hab_heap *heap);

/* The same with a backend that has no memory, for a child that could get no other. */
void hab_heap_open_nothing(struct hab_heap *heap);

#endif /* HAB_LIB_HEAP_H */
