// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Threads: their TLABs in thread-local storage, their records, and their end.
 *
 * The hard case is who may touch a record: its thread alone, without a lock,
 * while it runs; whoever holds the registry lock, once the heap is quiet (reset,
 * destroy) or the thread is ending. A heap that is destroyed cannot reach into
 * other threads' tables, so it leaves them orphans (no heap), which their threads
 * free when they come across them or end.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "lib/alloc/registry.h"
#include "lib/rseq/rseq.h"
#include "lib/alloc/thread.h"

#define MAX_HEAPS 4096

/* The address of no bytes at all, see struct hab_tlab. */
static char nothing[16] __attribute__((aligned(16)));

/* The last one stays empty: heaps beyond the fast slots point to it. */
static __thread struct hab_tlab tlabs[HAB_FAST_SLOTS + 1] __attribute__((tls_model("initial-exec"),
									 aligned(64))) = {
	[0 ... HAB_FAST_SLOTS] = { .position = UINT64_MAX, .limit = (uintptr_t)nothing + 1 },
};

/* The thread's records by slot, and how many the table has room for. */
static __thread struct hab_thread **records __attribute__((tls_model("initial-exec")));
static __thread uint32_t nr_records __attribute__((tls_model("initial-exec")));

static pthread_key_t exit_key;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static int key_error;
static bool slots[MAX_HEAPS]; /* registry lock */

void hab_tlab_close(struct hab_tlab *tlab)
{
	hab_tlab_open(tlab, (uintptr_t)nothing, (uintptr_t)nothing);
}

static void unlink_record(struct hab_thread *thread)
{
	*thread->previous = thread->next;
	if (thread->next)
		thread->next->previous = thread->previous;
	thread->heap->nr_threads--;
}

static void add_counters(struct hab_counters *sum, const struct hab_counters *more)
{
	uint64_t *to = (uint64_t *)sum;
	const uint64_t *from = (const uint64_t *)more;
	size_t i;

	for (i = 0; i < sizeof(*sum) / sizeof(*to); i++)
		to[i] += from[i];
}

void hab_thread_retire(struct hab_thread *thread)
{
	uintptr_t top;

	if (thread->end) {
		top = hab_thread_top(thread);
		thread->counters.allocated_bytes += top - thread->start;
		thread->counters.tlab_waste_bytes += thread->end - top;
	}
	thread->start = 0;
	thread->end = 0;
	hab_tlab_close(thread->tlab);
}

/* What the TLAB of a thread that ends has left serves others. */
static void give_back_rest(struct hab_thread *thread)
{
	struct hab_heap *heap = thread->heap;
	uintptr_t arena = (uintptr_t)heap->arena;
	uintptr_t rest;

	if (!thread->end)
		return;
	rest = (hab_thread_top(thread) + HAB_GRANULE - 1) & ~(HAB_GRANULE - 1);
	/* A TLAB from before a fork lies in the parent's arena. */
	if (rest >= thread->end || thread->start - arena >= heap->arena_bytes)
		return;
	if (!heap->backend->give_back(heap, rest - arena, thread->end - rest))
		thread->end = rest;
}

static void on_thread_exit(void *unused)
{
	struct hab_thread **table = records;
	uint32_t slot, nr = nr_records;

	(void)unused;
	hab_registry_lock();
	for (slot = 0; slot < nr; slot++) {
		struct hab_thread *thread = table[slot];

		if (thread && thread->heap) {
			give_back_rest(thread);
			hab_thread_retire(thread);
			thread->tlab->thread = NULL;
			add_counters(&thread->heap->gone, &thread->counters);
			unlink_record(thread);
		}
		free(thread);
	}
	records = NULL;
	nr_records = 0;
	hab_registry_unlock();
	free(table);
	hab_rseq_detach();
}

static void make_key(void)
{
	key_error = -pthread_key_create(&exit_key, on_thread_exit);
}

int hab_thread_add_heap(struct hab_heap *heap)
{
	uint32_t slot, fast;

	pthread_once(&once, make_key);
	if (key_error)
		return key_error;
	hab_registry_lock();
	for (slot = 0; slot < MAX_HEAPS && slots[slot]; slot++)
		;
	if (slot < MAX_HEAPS)
		slots[slot] = true;
	hab_registry_unlock();
	if (slot == MAX_HEAPS)
		return -ENOMEM;
	fast = slot < HAB_FAST_SLOTS ? slot : HAB_FAST_SLOTS;
	heap->slot = slot;
	heap->rseq_offset = hab_rseq_offset;
	heap->tlab_offset = (char *)&tlabs[fast] - (char *)__builtin_thread_pointer();
	return 0;
}

void hab_thread_remove_heap(struct hab_heap *heap)
{
	struct hab_thread *thread = heap->threads, *next;

	for (; thread; thread = next) {
		next = thread->next;
		hab_tlab_close(thread->tlab);
		thread->tlab->thread = NULL;
		/* Pairs with the acquire load in find_record(). */
		__atomic_store_n(&thread->heap, NULL, __ATOMIC_RELEASE);
	}
	heap->threads = NULL;
	heap->nr_threads = 0;
	slots[heap->slot] = false;
}

void hab_thread_forget_others(struct hab_heap *heap)
{
	struct hab_thread *mine = heap->slot < nr_records ? records[heap->slot] : NULL;
	struct hab_thread *thread = heap->threads, *next;

	for (; thread; thread = next) {
		next = thread->next;
		if (thread == mine)
			continue;
		/* Its thread-local storage is a dead copy: count by the record alone. */
		add_counters(&heap->gone, &thread->counters);
		unlink_record(thread);
		free(thread);
	}
}

static struct hab_thread *find_record(struct hab_heap *heap)
{
	struct hab_thread *thread;

	if (heap->slot >= nr_records)
		return NULL;
	thread = records[heap->slot];
	/* Pairs with the release store in hab_thread_remove_heap(). */
	if (thread && !__atomic_load_n(&thread->heap, __ATOMIC_ACQUIRE)) {
		free(thread);
		records[heap->slot] = NULL;
		return NULL;
	}
	return thread;
}

static int grow_table(uint32_t slot)
{
	uint32_t nr = nr_records ? nr_records : 8;
	struct hab_thread **table;

	if (slot < nr_records)
		return 0;
	while (nr <= slot)
		nr *= 2;
	table = realloc(records, nr * sizeof(struct hab_thread *));
	if (!table)
		return -ENOMEM;
	memset(table + nr_records, 0, (nr - nr_records) * sizeof(struct hab_thread *));
	records = table;
	nr_records = nr;
	return -pthread_setspecific(exit_key, table);
}

static struct hab_thread *make_record(struct hab_heap *heap)
{
	struct hab_thread *thread;

	if (grow_table(heap->slot))
		return NULL;
	thread = aligned_alloc(64, sizeof(*thread));
	if (!thread)
		return NULL;
	memset(thread, 0, sizeof(*thread));
	thread->heap = heap;
	thread->tlab = heap->slot < HAB_FAST_SLOTS ? &tlabs[heap->slot] : &thread->own_tlab;
	thread->sections = hab_rseq_attach() != HAB_RSEQ_NONE;
	/* Any odd number will do; threads must differ. */
	thread->random = (uintptr_t)thread * 0x9e3779b97f4a7c15ull | 1;
	hab_tlab_close(thread->tlab);
	if (thread->sections && !heap->verify && !heap->backend->take)
		thread->tlab->thread = thread;
	records[heap->slot] = thread;

	hab_registry_lock();
	thread->next = heap->threads;
	thread->previous = &heap->threads;
	if (thread->next)
		thread->next->previous = &thread->next;
	heap->threads = thread;
	heap->nr_threads++;
	hab_sizing_start(thread);
	hab_registry_unlock();
	return thread;
}

struct hab_thread *hab_thread_get(struct hab_heap *heap)
{
	struct hab_thread *thread = find_record(heap);

	return thread ? thread : make_record(heap);
}
