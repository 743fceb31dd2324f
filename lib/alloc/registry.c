// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The list of the process's heaps, and what fork() does to them.
 *
 * The child keeps its parent's objects and gets buffers of its own. All memory of the process
 * backend is private, so copy on write is enough. The device's words are wiped in it: the child
 * opens a heap of its own with a new arena, and the old arena stays mapped until the heap is
 * destroyed.
 *
 * A child by _Fork() or clone() does the same in its first slow path. If another thread of its
 * parent had a lock then, the child waits for ever, as for those of the C library.
 */
#include <pthread.h>

#include "lib/alloc/lists.h"
#include "lib/alloc/registry.h"
#include "lib/thread.h"
#include "lib/backend/backend.h"
#include "lib/telemetry/heap_channel.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static int handlers_error;
static struct hab_heap *heaps;

void hab_registry_add_locked(struct hab_heap *heap)
{
	struct hab_heap *other;

	for (other = heaps; other && heap->backend->compare; other = other->next)
		if (other->backend == heap->backend)
			heap->backend->compare(other, heap);
	heap->next = heaps;
	heaps = heap;
}

void hab_registry_remove_locked(struct hab_heap *heap)
{
	struct hab_heap **link;

	for (link = &heaps; *link != heap; link = &(*link)->next)
		;
	*link = heap->next;
}

struct hab_heap *hab_registry_find_locked(bool (*fits)(const struct hab_heap *heap))
{
	struct hab_heap *heap = heaps;

	while (heap && !fits(heap))
		heap = heap->next;
	return heap;
}

static void before_fork(void)
{
	struct hab_heap *heap;

	hab_collect_lock();
	hab_thread_lock();
	for (heap = heaps; heap; heap = heap->next) {
		if (heap->backend->lock)
			heap->backend->lock(heap);
	}
}

static void unlock_backends(void)
{
	struct hab_heap *heap;

	for (heap = heaps; heap; heap = heap->next) {
		if (heap->backend->unlock)
			heap->backend->unlock(heap);
	}
}

static void after_in_parent(void)
{
	unlock_backends();
	hab_thread_unlock();
	hab_collect_unlock();
}

static void begin_child_locked(void)
{
	struct hab_heap *heap;

	hab_heap_channel_after_fork();
	/* All of them first: a new one may have the descriptor's number of another one. */
	for (heap = heaps; heap; heap = heap->next) {
		hab_thread_remove_others_locked(heap);
		if (heap->backend->leave)
			heap->backend->leave(heap);
	}
	for (heap = heaps; heap; heap = heap->next) {
		if (heap->backend->leave) {
			hab_backend_reopen(heap);
			hab_lists_reopen_locked(heap);
		}
		hab_thread_draw_anew(heap);
	}
	hab_forked_seen();
}

static void after_in_child(void)
{
	unlock_backends();
	begin_child_locked();
	hab_thread_unlock();
	hab_collect_unlock();
}

void hab_registry_begin_child(void)
{
	hab_collect_lock();
	hab_thread_lock();
	if (hab_forked())
		begin_child_locked();
	hab_thread_unlock();
	hab_collect_unlock();
}

static void set_handlers(void)
{
	hab_forked_init();
	handlers_error = -pthread_atfork(before_fork, after_in_parent, after_in_child);
}

int hab_registry_init(void)
{
	pthread_once(&once, set_handlers);
	return handlers_error;
}
