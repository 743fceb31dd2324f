/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Integer types and arithmetic with 128-bit products, by the functions of the kernel or of user
 * space.
 */
#ifndef HAB_CORE_ARITHMETIC_H
#define HAB_CORE_ARITHMETIC_H

#ifdef __KERNEL__

#include <linux/bitops.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/types.h>

/* a * b / c, which must fit. */
static inline u64 hab_mul_div(u64 a, u64 b, u64 c)
{
	return mul_u64_u64_div_u64(a, b, c);
}

static inline u64 hab_mul_shift(u64 a, u64 b, unsigned int shift)
{
	return mul_u64_u64_shr(a, b, shift);
}

static inline u64 hab_div(u64 a, u64 b)
{
	return div64_u64(a, b);
}

static inline unsigned int hab_last_set(u64 value)
{
	return fls64(value);
}

#else /* user space */

#include <stdbool.h>
#include <stdint.h>

typedef uint64_t u64;
typedef uint32_t u32;

#ifndef min
#define min(a, b) ((a) < (b) ? (a) : (b))
#endif
#ifndef max
#define max(a, b) ((a) > (b) ? (a) : (b))
#endif

static inline u64 hab_mul_div(u64 a, u64 b, u64 c)
{
	return (u64)((unsigned __int128)a * b / c);
}

static inline u64 hab_mul_shift(u64 a, u64 b, unsigned int shift)
{
	return (u64)((unsigned __int128)a * b >> shift);
}

static inline u64 hab_div(u64 a, u64 b)
{
	return a / b;
}

static inline unsigned int hab_last_set(u64 value)
{
	return value ? 64 - (unsigned int)__builtin_clzll(value) : 0;
}

#endif /* __KERNEL__ */
#endif /* HAB_CORE_ARITHMETIC_H */
