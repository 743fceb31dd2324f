// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The process's heaps. A list: there are few, and only fork() walks it.
 */
#include <pthread.h>

#include "lib/alloc/heap.h"
#include "lib/alloc/registry.h"

static pthread_mutex_t registry = PTHREAD_MUTEX_INITIALIZER;
static struct hab_heap *heaps;

void hab_registry_lock(void)
{
	pthread_mutex_lock(&registry);
}

void hab_registry_unlock(void)
{
	pthread_mutex_unlock(&registry);
}

struct hab_heap *hab_registry_first(void)
{
	return heaps;
}

void hab_registry_add(struct hab_heap *heap)
{
	heap->next = heaps;
	heaps = heap;
}

void hab_registry_remove(struct hab_heap *heap)
{
	struct hab_heap **link;

	for (link = &heaps; *link != heap; link = &(*link)->next)
		;
	*link = heap->next;
}
