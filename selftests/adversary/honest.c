// SPDX-License-Identifier: GPL-2.0-only
/*
 * An honest program of the adversary test: six functions take chunks of known sizes at a steady
 * pace. It prints its own counts, so that habd's can be compared with them.
 *
 *	copper ROUNDS PACE_US	ends its rounds after ROUNDS (0: no limit) or at SIGTERM
 *
 * It exits when its standard input ends: until then its process is in habd's tables. Built once for
 * each value of PROGRAM, so that the names of its functions differ.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "lib/hab.h"

#define UNIT	    4096 /* the buffer: each chunk is a refill */
#define FUNCTIONS   6
#define JOIN_(a, b) a##_##b
#define JOIN(a, b)  JOIN_(a, b)
#define TEXT_(a)    #a
#define TEXT(a)	    TEXT_(a)
#define FUNCTION(n) JOIN(PROGRAM, n)

struct counts {
	uint64_t refills;
	uint64_t bytes;
};

static struct hab_heap *heap;
static struct counts counts[FUNCTIONS];
static uint64_t failed;
static volatile sig_atomic_t stop;

static void on_term(int number)
{
	(void)number;
	stop = 1;
}

static void note(unsigned int number, const struct hab_chunk *chunk)
{
	counts[number].refills++;
	counts[number].bytes += chunk->size;
	*(char *)chunk->base = 1;
}

/* Each has its call twice: at the end of the arena the heap is reset. */
#define DEFINE(n)                                                                               \
	__attribute__((noinline)) static void FUNCTION(n)(void)                                 \
	{                                                                                       \
		struct hab_chunk chunk;                                                         \
                                                                                                \
		if (!hab_chunk_take(heap, ((n) + 1) * UNIT, &chunk) ||                          \
		    (!hab_heap_reset(heap) && !hab_chunk_take(heap, ((n) + 1) * UNIT, &chunk))) \
			note(n, &chunk);                                                        \
		else                                                                            \
			failed++;                                                               \
	}

DEFINE(0)
DEFINE(1)
DEFINE(2)
DEFINE(3)
DEFINE(4)
DEFINE(5)

static int open_heap(void)
{
	struct hab_heap_config config;

	hab_heap_config_init(&config);
	config.arena_bytes = 16 << 20;
	config.levels = "clab=4K@cpu";
	config.name = TEXT(PROGRAM);
	return hab_heap_create(&heap, &config);
}

/* By a timetable: after a delay it does not catch up. */
static void wait_for(struct timespec *next, unsigned long pace_us)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	if (now.tv_sec > next->tv_sec + 1)
		*next = now;
	next->tv_nsec += (long)(pace_us * 1000);
	next->tv_sec += next->tv_nsec / 1000000000;
	next->tv_nsec %= 1000000000;
	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, next, NULL);
}

static void print_counts(void)
{
	struct hab_heap_stats stats;
	struct counts sum = { 0 };
	unsigned int i;

	for (i = 0; i < FUNCTIONS; i++) {
		printf("function " TEXT(PROGRAM) "_%u %llu %llu\n", i,
		       (unsigned long long)counts[i].refills, (unsigned long long)counts[i].bytes);
		sum.refills += counts[i].refills;
		sum.bytes += counts[i].bytes;
	}
	failed += hab_heap_stats(heap, &stats) != 0;
	printf("program " TEXT(PROGRAM) "\npid %d\nuid %u\nrefills %llu\nbytes %llu\n", getpid(),
	       getuid(), (unsigned long long)sum.refills, (unsigned long long)sum.bytes);
	printf("heap_refills %llu\nheap_bytes %llu\nfailed %llu\nbackend %s\nended 1\n",
	       (unsigned long long)stats.refills, (unsigned long long)stats.refill_bytes,
	       (unsigned long long)failed, hab_heap_backend(heap));
	fflush(stdout);
}

int main(int argc, char **argv)
{
	unsigned long rounds = argc > 1 ? strtoul(argv[1], NULL, 10) : 0;
	unsigned long pace_us = argc > 2 ? strtoul(argv[2], NULL, 10) : 50000, i;
	struct sigaction action = { .sa_handler = on_term };
	struct timespec next;
	char byte;

	sigaction(SIGTERM, &action, NULL);
	if (open_heap())
		return 1;
	clock_gettime(CLOCK_MONOTONIC, &next);
	for (i = 0; !stop && (!rounds || i < rounds); i++) {
		FUNCTION(0)();
		FUNCTION(1)();
		FUNCTION(2)();
		FUNCTION(3)();
		FUNCTION(4)();
		FUNCTION(5)();
		wait_for(&next, pace_us);
	}
	print_counts();
	while (read(STDIN_FILENO, &byte, 1) > 0 || errno == EINTR)
		errno = 0;
	hab_heap_destroy(heap);
	return failed != 0;
}
