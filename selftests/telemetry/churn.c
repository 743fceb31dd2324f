// SPDX-License-Identifier: GPL-2.0-only
/*
 * A load of refills on the device; prints the statistics of its heaps.
 *
 *	churn processes N AT_ONCE	N processes, each with a heap and ten refills
 *	churn refills N			one process, N refills
 *	churn until_eof THREADS		refills until its standard input ends
 *
 * The processes share a page, where each adds its statistics before it ends.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "lib/hab.h"

#define CHUNK	    4096
#define OF_EACH	    10 /* refills of a short-lived process */
#define THREADS_MAX 64

struct shared {
	atomic_ullong refills;
	atomic_ullong bytes;
	atomic_uint failed;
};

static struct shared *shared;
static struct hab_heap *heap;
static atomic_bool stop;
static unsigned long wanted; /* refills of this process; 0: until @stop */

static int open_heap(void)
{
	struct hab_heap_config config;

	hab_heap_config_init(&config);
	config.flags = HAB_HEAP_DEVICE;
	config.arena_bytes = 16 << 20;
	config.levels = "clab=4K@cpu";
	config.name = "churn";
	return hab_heap_create(&heap, &config);
}

/* Each chunk is as large as the buffer, so each is a refill. */
__attribute__((noinline)) static void *refill_again_and_again(void *nothing)
{
	struct hab_chunk chunk;
	unsigned long i;

	for (i = 0; wanted ? i < wanted : !atomic_load(&stop); i++)
		if (hab_chunk_take(heap, CHUNK, &chunk) &&
		    (hab_heap_reset(heap) || hab_chunk_take(heap, CHUNK, &chunk)))
			atomic_fetch_add(&shared->failed, 1);
	return nothing;
}

static void close_heap(void)
{
	struct hab_heap_stats stats;

	if (hab_heap_stats(heap, &stats))
		atomic_fetch_add(&shared->failed, 1);
	atomic_fetch_add(&shared->refills, stats.refills);
	atomic_fetch_add(&shared->bytes, stats.refill_bytes);
	hab_heap_destroy(heap);
}

static void __attribute__((noreturn)) live_shortly(void)
{
	wanted = OF_EACH;
	if (open_heap()) {
		atomic_fetch_add(&shared->failed, 1);
		_exit(1);
	}
	refill_again_and_again(NULL);
	close_heap();
	_exit(0);
}

static void run_processes(unsigned long count, unsigned long at_once)
{
	unsigned long alive = 0, i;
	pid_t child;

	for (i = 0; i < count; i++) {
		if (alive == at_once && wait(NULL) > 0)
			alive--;
		child = fork();
		if (!child)
			live_shortly();
		if (child > 0)
			alive++;
		else
			atomic_fetch_add(&shared->failed, 1);
	}
	while (wait(NULL) > 0)
		;
}

static int run_until_eof(unsigned long count)
{
	pthread_t threads[THREADS_MAX];
	unsigned long i;
	char byte;

	if (count > THREADS_MAX || open_heap())
		return 1;
	for (i = 0; i < count; i++)
		pthread_create(&threads[i], NULL, refill_again_and_again, NULL);
	while (read(STDIN_FILENO, &byte, 1) > 0)
		;
	atomic_store(&stop, true);
	for (i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
	close_heap();
	return 0;
}

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
	unsigned long number = argc > 2 ? strtoul(argv[2], NULL, 10) : 0;
	double start = now();
	int failed = 0;

	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	if (!number || shared == MAP_FAILED)
		return 2;
	if (!strcmp(argv[1], "processes")) {
		run_processes(number, argc > 3 ? strtoul(argv[3], NULL, 10) : 8);
	} else if (!strcmp(argv[1], "refills")) {
		wanted = number;
		failed = open_heap();
		if (!failed) {
			refill_again_and_again(NULL);
			close_heap();
		}
	} else {
		failed = run_until_eof(number);
	}
	printf("refills %llu\nbytes %llu\nfailed %u\nseconds %.1f\n", atomic_load(&shared->refills),
	       atomic_load(&shared->bytes), atomic_load(&shared->failed), now() - start);
	return failed || atomic_load(&shared->failed);
}
