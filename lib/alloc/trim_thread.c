// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The thread of HAB_HEAP_TRIM_THREAD: one for all heaps of a process. The first close of a region
 * in such a heap starts it, and it ends when there is no such heap any more.
 */
#include <pthread.h>
#include <signal.h>
#include <time.h>

#include "lib/alloc/registry.h"
#include "lib/alloc/trim.h"
#include "lib/alloc/trim_thread.h"

static bool runs; /* under the lock of the threads */
static uint32_t round_of_trims;

static bool has_thread(const struct hab_heap *heap)
{
	return heap->flags & HAB_HEAP_TRIM_THREAD;
}

static bool is_next(const struct hab_heap *heap)
{
	return has_thread(heap) && heap->trim_round != round_of_trims;
}

/* The next heap of this round, or NULL. No heap goes while hab_collect_lock() is held. */
static struct hab_heap *next_heap(void)
{
	struct hab_heap *heap;

	hab_thread_lock();
	heap = hab_registry_find_locked(is_next);
	if (heap)
		heap->trim_round = round_of_trims;
	hab_thread_unlock();
	return heap;
}

static void trim_all(void)
{
	struct hab_heap *heap;

	round_of_trims++;
	do {
		hab_collect_lock();
		heap = next_heap();
		if (heap)
			hab_trim(heap, NULL, hab_trim_now(), UINT32_MAX);
		hab_collect_unlock();
	} while (heap);
}

static bool goes_on(void)
{
	hab_thread_lock();
	runs = hab_registry_find_locked(has_thread);
	hab_thread_unlock();
	return runs;
}

static void *run(void *unused)
{
	const struct timespec second = { .tv_sec = 1 };

	(void)unused;
	pthread_setname_np(pthread_self(), "hab-trim");
	while (goes_on()) {
		nanosleep(&second, NULL);
		trim_all();
	}
	return NULL;
}

/* No signal of the program's is handled there. */
static int start(void)
{
	pthread_attr_t attributes;
	pthread_t thread;
	sigset_t all, before;
	int err;

	sigfillset(&all);
	pthread_attr_init(&attributes);
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	err = pthread_create(&thread, &attributes, run, NULL);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attributes);
	return err;
}

/* The thread is the parent's. */
static void after_in_child(void)
{
	runs = false;
}

static void set_handler(void)
{
	pthread_atfork(NULL, NULL, after_in_child);
}

void hab_trim_thread_start(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	bool starts;

	if (__atomic_load_n(&runs, __ATOMIC_RELAXED))
		return;
	pthread_once(&once, set_handler);
	hab_thread_lock();
	starts = !runs;
	runs = true;
	hab_thread_unlock();
	/* Without the lock: it takes memory, which may be a heap's. */
	if (!starts || !start())
		return;
	hab_thread_lock();
	runs = false;
	hab_thread_unlock();
}
