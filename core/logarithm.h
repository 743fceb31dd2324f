/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * A binary logarithm in integers; the kernel has none for modules.
 */
#ifndef HAB_CORE_LOGARITHM_H
#define HAB_CORE_LOGARITHM_H

#include "core/os.h"

#define HAB_LOG_BITS 40
#define HAB_LOG_ONE  (1ull << 63)

/**
 * hab_minus_log2 - minus the binary logarithm of a fraction
 * @fraction: 1 to HAB_LOG_ONE, where HAB_LOG_ONE stands for 1
 *
 * Return: the result with HAB_LOG_BITS bits of fraction, off by at most the last.
 */
static inline u64 hab_minus_log2(u64 fraction)
{
	unsigned int zeros = 64 - hab_last_set(fraction);
	u64 result = 0;
	u64 z;
	int bit;

	/* z in [1, 2) with 62 bits of fraction: fraction = z * 2^-zeros. */
	z = zeros ? fraction << (zeros - 1) : fraction >> 1;
	for (bit = 0; bit < HAB_LOG_BITS; bit++) {
		z = hab_mul_shift(z, z, 62);
		result <<= 1;
		if (z >> 63) {
			result |= 1;
			z >>= 1;
		}
	}
	return ((u64)zeros << HAB_LOG_BITS) - result;
}

#endif /* HAB_CORE_LOGARITHM_H */
