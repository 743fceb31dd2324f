/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
#ifndef HAB_LIB_CLOCK_H
#define HAB_LIB_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t hab_clock_ns_of(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return now.tv_sec * 1000000000ull + now.tv_nsec;
}

/* Nanoseconds of a clock that never goes back. */
static inline uint64_t hab_clock_ns(void)
{
	return hab_clock_ns_of(CLOCK_MONOTONIC);
}

/*
 * The same as of the last tick, some milliseconds ago at most. It is read from memory alone: a
 * thread that may only read() and write() is killed at the instruction that reads the other one.
 */
static inline uint64_t hab_clock_coarse_ns(void)
{
	return hab_clock_ns_of(CLOCK_MONOTONIC_COARSE);
}

#endif /* HAB_LIB_CLOCK_H */
