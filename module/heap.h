/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Heaps: their books, the areas that user space maps, and the refill.
 */
#ifndef HAB_HEAP_H
#define HAB_HEAP_H

#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/spinlock.h>
#include <linux/types.h>

#include "core/hierarchy/refill.h"

struct seq_file;
struct hab_process;
struct hab_owner;

/**
 * struct hab_dev_heap - what HAB_IOC_CREATE made
 * @link: in the list of heaps
 * @lock: of the books; taken with preemption off, held for one step. Inside of it only the owner's
 * @steps_lock: held for all steps of a reset, or of a collection when the heap is full
 * @collections: that began so far; under @steps_lock
 * @in_vain: the number of the last one that was done to its end; under @steps_lock
 * @books: the hierarchy
 * @info: the read-only area, of whole pages, like the words
 * @info_bytes: its length, in whole pages
 * @words_bytes: length of the words' area, in whole pages
 * @domains: the table within @info, [level][cpu]
 * @id: unique while the module is loaded
 * @owner: whose limit and budget it counts for
 * @budget: bytes of the owner's budget that this heap may count, under @lock
 * @process: which sampling interval it has
 * @of_process: in the list of its process's heaps
 * @name: as given
 *
 * It exists as long as its file, which mappings and running ioctls hold.
 */
struct hab_dev_heap {
	struct list_head link;
	raw_spinlock_t lock;
	struct mutex steps_lock;
	u64 collections;
	u64 in_vain;
	struct hab_hierarchy books;
	struct hab_info *info;
	size_t info_bytes;
	size_t words_bytes;
	u32 *domains;
	u64 id;
	struct hab_owner *owner;
	u64 budget;
	struct hab_process *process;
	struct list_head of_process;
	char name[HAB_NAME_LEN];
};

/**
 * hab_dev_heap_create - make a heap
 * @create: from the user, not checked yet; its results are filled in
 *
 * Return: the heap, or an ERR_PTR: -EINVAL, -ENOMEM, -ENOSPC at the owner's limit.
 */
struct hab_dev_heap *hab_dev_heap_create(struct hab_ioc_create *create);

/* Frees a heap that nothing can reach. NULL is fine. */
void hab_dev_heap_destroy(struct hab_dev_heap *heap);

/**
 * struct hab_dev_refill - a refill that may need several steps; zeroed before the first one
 * @entered: when it began
 * @dropped_bytes: out: free extents that became waste by it
 * @counted_bytes: out: the part of what was granted that counts, see hab_owners_spend()
 * @is_collecting: it has the heap's @steps_lock
 * @begun: collections of the heap that had begun when it was found full
 * @collection: number of this refill's own, 0: none
 * @collected: see hab_hierarchy_collect()
 * @cpu: the next CPU whose word is to be emptied by work there
 * @waited: jiffies that it has waited for such work
 * @again: it has dropped free extents, so all segments have to be looked at again
 */
struct hab_dev_refill {
	u64 entered;
	u64 dropped_bytes;
	u64 counted_bytes;
	bool is_collecting;
	u64 begun;
	u64 collection;
	u32 collected;
	unsigned int cpu;
	long waited;
	bool again;
};

/**
 * hab_dev_heap_refill - HAB_IOC_REFILL, once
 * @heap: the heap
 * @refill: in and out, checked here
 * @steps: of this refill
 *
 * Context: process, preemption off, so that the refill stays on its CPU.
 * Return: 0; -ENOMEM: it is full, see hab_dev_heap_collect(); -EINVAL, -EAGAIN.
 */
int hab_dev_heap_refill(struct hab_dev_heap *heap, struct hab_ioc_refill *refill,
			struct hab_dev_refill *steps);

/**
 * hab_dev_heap_collect - the heap is full: retire some buffers
 * @heap: the heap
 * @steps: of the refill that found it full
 *
 * One thread of a heap collects at a time. The others wait, and most find memory then. One that
 * does not collects on its own account, if no other has collected all since it waits: so no thread
 * waits for more than two collections, however many there are.
 *
 * Context: process, may sleep. hab_dev_heap_end_collect() comes after the last call.
 * Return: true: try the refill again; false: the heap is full.
 */
bool hab_dev_heap_collect(struct hab_dev_heap *heap, struct hab_dev_refill *steps);

/* The refill is over, whether or not it has collected. */
void hab_dev_heap_end_collect(struct hab_dev_heap *heap, struct hab_dev_refill *steps);

/* HAB_IOC_RETURN: 0 or -EINVAL. */
int hab_dev_heap_return(struct hab_dev_heap *heap, const struct hab_ioc_return *give);

/* Context for both: process, may sleep. */
void hab_dev_heap_reset(struct hab_dev_heap *heap);
void hab_dev_heap_stats(struct hab_dev_heap *heap, struct hab_ioc_stats *stats);

/* For /proc/PID/fdinfo: what it is, and its refills. */
void hab_dev_heap_show(struct hab_dev_heap *heap, struct seq_file *file);

/**
 * hab_dev_heaps_retire - retire the buffers whose CPUs are offline, in all heaps
 * @cpu: a CPU that is dead; domains of which it was the last CPU are concerned
 *
 * What the buffers have left becomes free extents.
 *
 * Context: a CPU hotplug callback.
 */
void hab_dev_heaps_retire(unsigned int cpu);

/**
 * hab_dev_heaps_set_listeners - show all heaps which events have listeners
 * @bits: HAB_LISTENER()
 *
 * Context: process; the tracepoints' lock may be held.
 */
void hab_dev_heaps_set_listeners(u32 bits);

/**
 * hab_dev_heap_show_sampling - show a heap what a report has changed
 * @heap: any context
 * @next_is_kept: as in struct hab_info
 */
void hab_dev_heap_show_sampling(struct hab_dev_heap *heap, bool next_is_kept);

/* Show all heaps the sampling intervals of their processes. May sleep. */
void hab_dev_heaps_show_sampling(void);

/* The same for the heaps of one process; @heaps is its list of them. May sleep. */
void hab_dev_heaps_show_process(struct list_head *heaps);

#define HAB_INTERVAL_OF_PROCESS (~0ull) /* each process has its own */

/*
 * Mean distance of all processes' samples in bytes, 0: every allocation; or
 * HAB_INTERVAL_OF_PROCESS. Others above HAB_SAMPLING_INTERVAL_MAX: -EINVAL.
 */
u64 hab_dev_heaps_interval(void);
int hab_dev_heaps_set_interval(u64 mean_bytes);

/* Heaps that exist now. */
unsigned int hab_dev_heaps_count(void);

#endif /* HAB_HEAP_H */
