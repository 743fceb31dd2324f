// SPDX-License-Identifier: GPL-2.0-only
/*
 * Touches pages at a pace: faults A_SECOND SECONDS [counted]. Prints the page faults that it
 * had, and the nanoseconds that it ran and that passed. counted: while the kernel counts all page
 * faults of its CPU, and does nothing else with them.
 */
#include <linux/perf_event.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define PAGE	  ((size_t)4096)
#define PAGES	  ((size_t)16384) /* then they are given back */
#define TURNS	  100		  /* a second */
#define SECOND_NS 1000000000ll

static long long clock_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return now.tv_sec * SECOND_NS + now.tv_nsec;
}

/* By frames of its own, as the functions of programs have them. */
__attribute__((noinline)) static void touch(volatile char *memory, size_t *at, size_t pages)
{
	while (pages--) {
		if (*at == PAGES) {
			madvise((void *)memory, PAGES * PAGE, MADV_DONTNEED);
			*at = 0;
		}
		memory[(*at)++ * PAGE] = 1;
	}
	__asm__ volatile("");
}

static bool count_faults(void)
{
	struct perf_event_attr wanted = { .type = PERF_TYPE_SOFTWARE,
					  .size = sizeof(wanted),
					  .config = PERF_COUNT_SW_PAGE_FAULTS_MIN };

	return syscall(SYS_perf_event_open, &wanted, -1, sched_getcpu(), -1, 0) >= 0;
}

int main(int argc, char **argv)
{
	size_t a_second = argc > 1 ? strtoull(argv[1], NULL, 10) : 0, at = 0;
	long long begin = clock_ns(CLOCK_MONOTONIC), ran = clock_ns(CLOCK_PROCESS_CPUTIME_ID), turn = begin;
	long long end = begin + (argc > 2 ? strtoll(argv[2], NULL, 10) : 1) * SECOND_NS;
	char *memory = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			    -1, 0);
	struct timespec next;
	struct rusage usage;
	long before;

	if (argc > 3 && !count_faults())
		return 1;
	if (memory == MAP_FAILED || madvise(memory, PAGES * PAGE, MADV_NOHUGEPAGE))
		return 1;
	getrusage(RUSAGE_SELF, &usage);
	before = usage.ru_minflt;
	while (clock_ns(CLOCK_MONOTONIC) < end) {
		touch(memory, &at, a_second / TURNS);
		turn += SECOND_NS / TURNS;
		next = (struct timespec){ turn / SECOND_NS, turn % SECOND_NS };
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL);
	}
	getrusage(RUSAGE_SELF, &usage);
	printf("%ld %lld %lld\n", usage.ru_minflt - before,
	       clock_ns(CLOCK_PROCESS_CPUTIME_ID) - ran, clock_ns(CLOCK_MONOTONIC) - begin);
	return 0;
}
