/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A heap: its books, the areas it shows to user space, and the refill.
 */
#ifndef HAB_HEAP_H
#define HAB_HEAP_H

#include <linux/list.h>
#include <linux/spinlock.h>
#include <linux/types.h>

#include "core/hierarchy/refill.h"

/**
 * struct hab_dev_heap - what HAB_IOC_CREATE made
 * @link: in the list of heaps.c
 * @lock: the books; taken with preemption off, held for a refill or a reset. Innermost
 * @books: the hierarchy
 * @info: the read-only area, of whole pages, like the words
 * @info_bytes: its length, in whole pages
 * @words_bytes: length of the words' area, in whole pages
 * @domains: the table within @info, [level][cpu]
 * @id: unique while the module is loaded
 * @name: as given
 *
 * Lives as long as its file: mappings hold the file, so do running ioctls.
 */
struct hab_dev_heap {
	struct list_head link;
	raw_spinlock_t lock;
	struct hab_hierarchy books;
	struct hab_info *info;
	size_t info_bytes;
	size_t words_bytes;
	u32 *domains;
	u64 id;
	char name[HAB_NAME_LEN];
};

/**
 * hab_dev_heap_create - make a heap
 * @create: as from the user, sizes not checked yet; its results are filled in
 *
 * Return: the heap, or an ERR_PTR: -EINVAL, -ENOMEM, -ENOSPC at the module's limit.
 */
struct hab_dev_heap *hab_dev_heap_create(struct hab_ioc_create *create);

/* Frees a heap that nothing can reach any more. NULL is fine. */
void hab_dev_heap_destroy(struct hab_dev_heap *heap);

/**
 * hab_dev_heap_refill - HAB_IOC_REFILL
 * @heap: the heap
 * @refill: in and out, checked here
 *
 * Context: process; runs its middle part with preemption off.
 * Return: 0, -EINVAL, -ENOMEM, -EAGAIN.
 */
int hab_dev_heap_refill(struct hab_dev_heap *heap, struct hab_ioc_refill *refill);

/* HAB_IOC_RETURN: 0 or -EINVAL. */
int hab_dev_heap_return(struct hab_dev_heap *heap, const struct hab_ioc_return *give);

/**
 * hab_dev_heap_retire - give up the buffers that nobody can use any more
 * @heap: the heap
 * @cpu: a CPU that is dead
 *
 * What is left in the buffers of the domains that it was the last CPU of joins the
 * heap's rests.
 *
 * Context: a CPU hotplug callback.
 */
void hab_dev_heap_retire(struct hab_dev_heap *heap, unsigned int cpu);

void hab_dev_heap_reset(struct hab_dev_heap *heap);
void hab_dev_heap_stats(struct hab_dev_heap *heap, struct hab_ioc_stats *stats);

/* Heaps that exist now. */
unsigned int hab_dev_heap_count(void);

#endif /* HAB_HEAP_H */
