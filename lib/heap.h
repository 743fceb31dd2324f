/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * A heap inside libhab: the structs that all of the library's folders share.
 *
 * alloc/ takes chunks and cuts objects from them, rseq/ has the sections, backend/ refills the
 * buffers, telemetry/ reports events and samples.
 */
#ifndef HAB_LIB_HEAP_H
#define HAB_LIB_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/hab.h"
#include "lib/settings.h"
#include "uapi/hab.h"

struct hab_lists;
struct hab_thread;

/**
 * struct hab_backend - keeps the books and the words of a heap
 * @name: "device" or "process"
 * @open: sets @words, @domains, @nr_cpus, @arena, @sections, @backend_data and @reason of the
 *	heap from its settings; on error it leaves nothing behind but @reason
 * @close: frees what @open made
 * @refill: as HAB_IOC_REFILL, -EAGAIN included
 * @give_back: as HAB_IOC_RETURN
 * @reset: empties all buffers
 * @stats: fills in the books' counters
 * @stack: sends the stack of a kept sample; may be NULL
 * @report: as HAB_IOC_REPORT
 * @lock: before fork(): no thread is inside the backend until @unlock; may be NULL
 * @unlock: after fork(), in parent and child
 * @leave: in a forked child: frees what the child cannot use, so that the heap can be opened
 *	again; NULL if the child can use everything
 * @compare: with another heap, which has just been opened: what that has is not this one's any
 *	more; may be NULL
 */
struct hab_backend {
	const char *name;
	int (*open)(struct hab_heap *heap);
	void (*close)(struct hab_heap *heap);
	int (*refill)(struct hab_heap *heap, struct hab_thread *thread,
		      struct hab_ioc_refill *refill);
	int (*give_back)(struct hab_heap *heap, uint64_t offset, uint64_t bytes);
	int (*reset)(struct hab_heap *heap);
	int (*stats)(struct hab_heap *heap, struct hab_ioc_stats *stats);
	void (*stack)(struct hab_heap *heap, const struct hab_ioc_stack *stack);
	int (*report)(struct hab_heap *heap, struct hab_ioc_report *report);
	void (*lock)(struct hab_heap *heap);
	void (*unlock)(struct hab_heap *heap);
	void (*leave)(struct hab_heap *heap);
	void (*compare)(struct hab_heap *heap, const struct hab_heap *newer);
};

/* Counters of one thread, or the sum over threads that have exited. */
struct hab_counters {
	uint64_t chunks;
	uint64_t chunk_bytes;
	uint64_t allocated_bytes; /* in retired TLABs and outside of TLABs */
	uint64_t tlab_waste_bytes;
	uint64_t tlab_refills;
	uint64_t outside_allocations;
	uint64_t restarts;
	uint64_t conflicts;
	uint64_t refills;
	uint64_t refill_bytes;
	uint64_t foreign;
	uint64_t verified;
	uint64_t region_bytes;
	uint64_t region_chunks;
	uint64_t listed_chunks;		       /* of these, from lists */
	uint64_t open_chunks;		       /* taken less closed */
	uint64_t free_bytes[HAB_STATS_LEVELS]; /* put into lists less taken, by level */
};

/* What a word of the lowest level, and a list of free chunks, belongs to. */
enum hab_word_of {
	HAB_WORD_OF_CPU,
	HAB_WORD_OF_CID, /* the thread with a concurrency id, see lib/rseq/rseq.h */
	HAB_WORD_SHARED, /* several CPUs share a word, so it is moved by cmpxchg; lists are of CPUs */
};

/* A function that is called for each sample, and its argument. It never changes. */
struct hab_sample_handler {
	struct hab_sample_handler *next;
	hab_sample_fn call;
	void *context;
};

/**
 * struct hab_heap - a heap
 * @tlab_offset: of the heap's TLAB from the thread pointer; first, because hab_alloc() reads
 *	nothing else
 * @take: hab_chunk_take() for what this heap's words belong to
 * @take_base: hab_chunk_take_base(), likewise
 * @rseq_offset: of the thread's rseq area from the thread pointer. A take reads this and what
 *	follows up to @word_of
 * @nr_cpus: CPU numbers are below this
 * @nr_levels: configured levels
 * @words: the lowest level's words
 * @arena: its memory
 * @domains: of the lowest level, by CPU
 * @word_of: what words and lists belong to. The domain ids of the lowest level are CPU numbers,
 *	or cids, or those in @domains
 * @sections: rseq sections move the words; otherwise each chunk is a refill
 * @verify: sections also read the hardware's CPU number
 * @tlab_mode: how TLABs are sized
 * @tlab_bytes: size of fixed TLABs
 * @largest_in_tlab: an object up to this size gets a new TLAB rather than a chunk of its own
 * @lowest_bytes: size of the lowest level's buffers
 * @tlab_limit: as in struct hab_settings
 * @alignment: of objects in TLABs
 * @sample_handler: of hab_set_sample_handler(); NULL: none
 * @sample_handlers: all that there were: a thread may still call one
 * @sampling_interval: of hab_set_sampling_interval(); negative: *@default_interval
 * @listeners: bits HAB_LISTENER(kind); the kernel changes them. This and the next two are those of
 *	lib/telemetry/heap_channel.h for the process backend
 * @default_interval: the sampling interval
 * @next_is_kept: as in struct hab_info
 * @usdt_objects: objects that otel_memory:alloc has reported; NULL: none
 * @arena_bytes: size of the arena
 * @slot: index of the heap in each thread's table
 * @backend: keeps books and words
 * @backend_data: the backend's
 * @reason: why that backend, in a sentence
 * @flags: HAB_HEAP_*
 * @cids: the lowest level has the domain cid
 * @levels: from the one next to the heap down
 * @level_names: their names
 * @name: of the heap
 * @lists: free chunks of regions
 * @now: the tick when a thread last looked, see lib/alloc/trim.c; written rarely
 * @trim_round: the last round of the thread that trims
 * @lives: grows whenever all chunks of regions die, so that no region closes them after that
 * @resets: calls of hab_heap_reset()
 * @inherited: arenas of the heap before fork(), which hold the objects of that time
 * @threads: threads that use the heap; this and the next three under hab_thread_lock()
 * @nr_threads: their number
 * @exited: counters of threads that have exited
 * @next: in the list of heaps
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
	void *(*take_base)(struct hab_heap *heap, size_t size);
	enum hab_word_of word_of;
	bool sections;
	bool verify;
	enum hab_tlab_mode tlab_mode;

	/* Refills of TLABs read these, too. */
	size_t tlab_bytes;
	size_t largest_in_tlab;
	size_t lowest_bytes;
	size_t tlab_limit;
	uint32_t alignment;
	const struct hab_sample_handler *sample_handler;
	struct hab_sample_handler *sample_handlers;
	int64_t sampling_interval;
	const uint32_t *listeners;
	const uint64_t *default_interval;
	const uint32_t *next_is_kept;
	struct hab_usdt_objects *usdt_objects;

	size_t arena_bytes;
	uint32_t slot;
	const struct hab_backend *backend;
	void *backend_data;
	char reason[512];
	uint32_t flags;
	bool cids;
	struct hab_level levels[HAB_MAX_LEVELS];
	char level_names[HAB_MAX_LEVELS][HAB_LEVEL_NAME_LEN];
	char name[HAB_NAME_LEN];
	struct hab_lists *lists;
	uint32_t now;
	uint32_t trim_round;
	uint64_t lives;
	uint64_t resets;
	struct hab_inherited *inherited;
	struct hab_thread *threads;
	uint32_t nr_threads;
	struct hab_counters exited;
	struct hab_heap *next;
} __attribute__((aligned(64)));

/* The level next to the TLABs. */
static inline const struct hab_level *hab_heap_lowest(const struct hab_heap *heap)
{
	return &heap->levels[heap->nr_levels - 1];
}

/* The lowest level's word of a domain. */
static inline uint64_t *hab_heap_word(const struct hab_heap *heap, uint32_t domain)
{
	return &heap->words[(uint64_t)domain * (HAB_WORD_STRIDE / sizeof(uint64_t))];
}

/* The backends: the module's, and the library's own. */
extern const struct hab_backend hab_device_backend, hab_process_backend;

/* true if the backend can empty the buffers of other CPUs when the heap is full. */
bool hab_process_collects(const struct hab_heap *heap);

/**
 * hab_heap_create_on - hab_heap_create() with a backend that the caller chooses
 * @heap: the result
 * @config: as hab_heap_create()
 * @backend: NULL: the library chooses
 *
 * For programs that are linked with libhab.a; the shared library does not export it.
 *
 * Return: as hab_heap_create(), or what @backend's open gives.
 */
int hab_heap_create_on(struct hab_heap **heap, const struct hab_heap_config *config,
		       const struct hab_backend *backend);

#endif /* HAB_LIB_HEAP_H */
