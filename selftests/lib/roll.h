/* SPDX-License-Identifier: GPL-2.0-only */
/* Random numbers of a thread, the same in each run. */
#ifndef SELFTESTS_ROLL_H
#define SELFTESTS_ROLL_H

#include <stdint.h>

static __thread uint64_t seed; /* set it first: of 0 all numbers are 0 */

static inline uint32_t roll(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed >> 32;
}

#endif /* SELFTESTS_ROLL_H */
