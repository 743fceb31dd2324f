// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Threads: their TLABs in thread-local storage, their state in each heap, and their exit.
 *
 * Two threads may access a struct hab_thread: its own, without a lock; and one that holds the lock,
 * while no thread uses the heap (reset, destroy) or its thread exits.
 * Destroying a heap cannot reach
 * other threads' tables, so it clears the heap pointer of their entries, and each thread frees its
 * own entry when it finds it or exits.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "core/arithmetic.h"
#include "lib/alloc/sizing.h"
#include "lib/thread.h"
#include "lib/clock.h"
#include "lib/rseq/rseq.h"
#include "lib/telemetry/sampler.h"

#define MAX_HEAPS 4096

/*
 * Heaps with a TLAB in thread-local storage; later ones are a few loads slower. For libraries that
 * are opened later glibc has 1,664 bytes of such storage: enough for two plugins with libhab.a.
 */
#define FAST_SLOTS 15

/* The address of an object of 0 bytes in an empty TLAB, see struct hab_tlab. */
static char no_bytes[16] __attribute__((aligned(16)));

struct hab_thread hab_no_thread;

/* The last one stays empty: heaps beyond the fast slots point to it. */
static __thread struct hab_tlab tlabs[FAST_SLOTS + 1]
	__attribute__((tls_model("initial-exec"), aligned(64))) = {
		[0 ... FAST_SLOTS] = { .position = UINT64_MAX,
				       .limit = (uintptr_t)no_bytes + 1,
				       .mask = 15,
				       .thread = &hab_no_thread },
	};

/* The calling thread in each heap, by the heap's slot, and the table's length. */
static __thread struct hab_thread **table __attribute__((tls_model("initial-exec")));
static __thread uint32_t table_length __attribute__((tls_model("initial-exec")));

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_key_t exit_key;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static int key_error;
static bool slots[MAX_HEAPS]; /* under the lock */

void hab_thread_lock(void)
{
	pthread_mutex_lock(&lock);
}

void hab_thread_unlock(void)
{
	pthread_mutex_unlock(&lock);
}

static pthread_mutex_t collections = PTHREAD_MUTEX_INITIALIZER;

void hab_collect_lock(void)
{
	pthread_mutex_lock(&collections);
}

bool hab_collect_trylock(void)
{
	return !pthread_mutex_trylock(&collections);
}

void hab_collect_unlock(void)
{
	pthread_mutex_unlock(&collections);
}

static void close_tlab(struct hab_tlab *tlab)
{
	hab_tlab_open(tlab, (uintptr_t)no_bytes, (uintptr_t)no_bytes);
}

static void unlink_thread(struct hab_thread *thread)
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
	hab_thread_set_range(thread, 0, 0);
	close_tlab(thread->tlab);
}

/* A thread exits: the unused end of its TLAB becomes a free extent of the heap. */
static void give_back_unused(struct hab_thread *thread)
{
	struct hab_heap *heap = thread->heap;
	uintptr_t arena = (uintptr_t)heap->arena;
	uintptr_t unused;

	if (!thread->end)
		return;
	unused = (hab_thread_top(thread) + HAB_GRANULE - 1) & ~(HAB_GRANULE - 1);
	/* A TLAB from before a fork lies in the parent's arena. */
	if (unused >= thread->end || thread->start - arena >= heap->arena_bytes)
		return;
	if (!heap->backend->give_back(heap, unused - arena, thread->end - unused))
		thread->end = unused;
}

static void on_thread_exit(void *unused)
{
	struct hab_thread **entries = table;
	uint32_t slot, nr = table_length;

	(void)unused;
	hab_thread_lock();
	for (slot = 0; slot < nr; slot++) {
		struct hab_thread *thread = entries[slot];

		if (thread && thread->heap) {
			hab_sampler_leave(thread);
			give_back_unused(thread);
			hab_thread_retire(thread);
			thread->tlab->thread = &hab_no_thread;
			add_counters(&thread->heap->exited, &thread->counters);
			unlink_thread(thread);
		}
		free(thread);
	}
	table = NULL;
	table_length = 0;
	hab_thread_unlock();
	free(entries);
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
	hab_thread_lock();
	for (slot = 0; slot < MAX_HEAPS && slots[slot]; slot++)
		;
	if (slot < MAX_HEAPS)
		slots[slot] = true;
	hab_thread_unlock();
	if (slot == MAX_HEAPS)
		return -ENOMEM;
	fast = slot < FAST_SLOTS ? slot : FAST_SLOTS;
	heap->slot = slot;
	heap->rseq_offset = hab_rseq_offset;
	heap->tlab_offset = (char *)&tlabs[fast] - (char *)__builtin_thread_pointer();
	return 0;
}

void hab_thread_remove_heap_locked(struct hab_heap *heap)
{
	struct hab_thread *thread = heap->threads, *next;

	for (; thread; thread = next) {
		next = thread->next;
		hab_sampler_leave(thread);
		close_tlab(thread->tlab);
		thread->tlab->thread = &hab_no_thread;
		/* Pairs with the acquire load in find_thread(). */
		__atomic_store_n(&thread->heap, NULL, __ATOMIC_RELEASE);
	}
	heap->threads = NULL;
	heap->nr_threads = 0;
	slots[heap->slot] = false;
}

/*
 * Differs between threads, also if one has the memory of another that has ended, and between a
 * process and its children. No system call: the program may have forbidden it.
 */
static void seed(struct hab_thread *thread)
{
	static uint64_t threads;
	uint64_t value = __atomic_add_fetch(&threads, 1, __ATOMIC_RELAXED);

	value = value * HAB_MIX_STEP + hab_clock_ns();
	value = hab_mix(value) + (uintptr_t)thread;
	thread->random = hab_mix(value) | 1;
}

void hab_thread_remove_others_locked(struct hab_heap *heap)
{
	struct hab_thread *mine = heap->slot < table_length ? table[heap->slot] : NULL;
	struct hab_thread *thread = heap->threads, *next;

	for (; thread; thread = next) {
		next = thread->next;
		if (thread == mine)
			continue;
		/* The TLAB may be in another thread's storage, which the child does not have. */
		add_counters(&heap->exited, &thread->counters);
		unlink_thread(thread);
		free(thread);
	}
}

void hab_thread_draw_anew(struct hab_heap *heap)
{
	struct hab_thread *mine = heap->slot < table_length ? table[heap->slot] : NULL;

	if (!mine || mine->heap != heap)
		return;
	seed(mine);
	mine->objects.on = false;
	mine->pass_end = 0;
	mine->chunks.on = false;
	mine->chunk_bytes_left = 0;
	if (mine->nr_domains)
		mine->nr_domains = heap->nr_cpus;
	if (mine->end)
		hab_sampler_open(mine, hab_thread_top(mine));
}

static struct hab_thread *find_thread(struct hab_heap *heap)
{
	struct hab_thread *thread;

	if (heap->slot >= table_length)
		return NULL;
	thread = table[heap->slot];
	/* Pairs with the release store in hab_thread_remove_heap_locked(). */
	if (thread && !__atomic_load_n(&thread->heap, __ATOMIC_ACQUIRE)) {
		free(thread);
		table[heap->slot] = NULL;
		return NULL;
	}
	return thread;
}

static int grow_table(uint32_t slot)
{
	uint32_t length = table_length ? table_length : 8;
	struct hab_thread **grown;

	if (slot < table_length)
		return 0;
	while (length <= slot)
		length *= 2;
	grown = realloc(table, length * sizeof(struct hab_thread *));
	if (!grown)
		return -ENOMEM;
	memset(grown + table_length, 0, (length - table_length) * sizeof(struct hab_thread *));
	table = grown;
	table_length = length;
	return -pthread_setspecific(exit_key, table);
}

static struct hab_thread *make_thread(struct hab_heap *heap)
{
	struct hab_thread *thread;

	if (grow_table(heap->slot))
		return NULL;
	thread = aligned_alloc(64, sizeof(*thread));
	if (!thread)
		return NULL;
	memset(thread, 0, sizeof(*thread));
	thread->heap = heap;
	thread->tlab = heap->slot < FAST_SLOTS ? &tlabs[heap->slot] : &thread->own_tlab;
	thread->tlab->mask = heap->alignment - 1;
	thread->sections = hab_rseq_attach() != HAB_RSEQ_NONE && heap->sections;
	seed(thread);
	close_tlab(thread->tlab);
	if (thread->sections && !heap->verify) {
		thread->nr_domains = heap->nr_cpus;
		thread->tlab->thread = thread;
	}
	table[heap->slot] = thread;

	hab_thread_lock();
	thread->next = heap->threads;
	thread->previous = &heap->threads;
	if (thread->next)
		thread->next->previous = &thread->next;
	heap->threads = thread;
	heap->nr_threads++;
	hab_sizing_start(thread);
	hab_thread_unlock();
	return thread;
}

struct hab_thread *hab_thread_get(struct hab_heap *heap)
{
	struct hab_thread *thread = find_thread(heap);

	return thread ? thread : make_thread(heap);
}
