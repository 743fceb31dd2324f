// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * fork: the child keeps its parent's objects and gets buffers of its own.
 *
 * With the process backend all is private memory, so copy on write does it. The
 * device's words are not inherited (the kernel says so to the mapping): the child
 * opens a heap of its own with a new arena, and the old arena stays where the
 * objects are until the heap is destroyed.
 */
#include <pthread.h>

#include "lib/alloc/fork.h"
#include "lib/alloc/heap.h"
#include "lib/alloc/registry.h"
#include "lib/alloc/thread.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static int handlers_error;

static void before(void)
{
	struct hab_heap *heap;

	hab_registry_lock();
	for (heap = hab_registry_first(); heap; heap = heap->next) {
		if (heap->backend->hold)
			heap->backend->hold(heap);
	}
}

static void release_all(void)
{
	struct hab_heap *heap;

	for (heap = hab_registry_first(); heap; heap = heap->next) {
		if (heap->backend->release)
			heap->backend->release(heap);
	}
}

static void after_in_parent(void)
{
	release_all();
	hab_registry_unlock();
}

static void after_in_child(void)
{
	struct hab_heap *heap;

	release_all();
	for (heap = hab_registry_first(); heap; heap = heap->next) {
		hab_thread_forget_others(heap);
		if (heap->backend->after_fork)
			heap->backend->after_fork(heap);
	}
	hab_registry_unlock();
}

static void set_handlers(void)
{
	handlers_error = -pthread_atfork(before, after_in_parent, after_in_child);
}

int hab_fork_prepare_handlers(void)
{
	pthread_once(&once, set_handlers);
	return handlers_error;
}
