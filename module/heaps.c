// SPDX-License-Identifier: GPL-2.0-only
/*
 * The list of all heaps, for what concerns each of them: CPUs that go, listeners that
 * come and go.
 *
 * The hard case is the heap that is made meanwhile: what it has to be told first it is told
 * under the lock under which the others are told of changes, so it misses none.
 *
 * Locks: CPU hotplug's own, or that of the tracepoints, then heaps_lock, then a heap's. No
 * memory is allocated and no CPU waited for inside it.
 */
#include <linux/list.h>
#include <linux/mutex.h>

#include "module/heap.h"
#include "module/heaps.h"

static LIST_HEAD(heaps);
static DEFINE_MUTEX(heaps_lock); /* the list, and that what is in it stays */

void hab_dev_heaps_join(struct hab_dev_heap *heap, void (*first)(struct hab_dev_heap *heap))
{
	mutex_lock(&heaps_lock);
	list_add_tail(&heap->link, &heaps);
	first(heap);
	mutex_unlock(&heaps_lock);
}

void hab_dev_heaps_leave(struct hab_dev_heap *heap)
{
	mutex_lock(&heaps_lock);
	list_del_init(&heap->link);
	mutex_unlock(&heaps_lock);
}

void hab_dev_heaps_each(void (*visit)(struct hab_dev_heap *heap, unsigned int argument),
		    unsigned int argument)
{
	struct hab_dev_heap *heap;

	mutex_lock(&heaps_lock);
	list_for_each_entry(heap, &heaps, link)
		visit(heap, argument);
	mutex_unlock(&heaps_lock);
}
