/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
#ifndef HAB_LIB_CLOCK_H
#define HAB_LIB_CLOCK_H

#include <stdint.h>
#include <time.h>

/* Nanoseconds of a clock that never goes back. */
static inline uint64_t hab_clock_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ull + now.tv_nsec;
}

#endif /* HAB_LIB_CLOCK_H */
