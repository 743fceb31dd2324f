/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Integer types, 128-bit products and other arithmetic that the kernel, BPF programs and user
 * space spell differently.
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

#elif defined(__bpf__)

#include <linux/types.h>
#include <stdbool.h>

typedef __u64 u64;
typedef __u32 u32;

/* BPF has no product of 128 bits; the caller's @shift is 64. */
static inline u64 hab_mul_shift(u64 a, u64 b, unsigned int shift)
{
	u64 low = (a & 0xffffffff) * (b & 0xffffffff);
	u64 middle = (a >> 32) * (b & 0xffffffff) + (low >> 32);
	u64 other = (a & 0xffffffff) * (b >> 32) + (middle & 0xffffffff);

	(void)shift;
	return (a >> 32) * (b >> 32) + (middle >> 32) + (other >> 32);
}

static inline u64 hab_div(u64 a, u64 b)
{
	return a / b;
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

#endif

/* A hash of 64 bits, and the step between its inputs: both as in splitmix64. */
static inline u64 hab_mix(u64 value)
{
	value ^= value >> 30;
	value *= 0xbf58476d1ce4e5b9ull;
	value ^= value >> 27;
	value *= 0x94d049bb133111ebull;
	return value ^ value >> 31;
}

#define HAB_MIX_STEP 0x9e3779b97f4a7c15ull

/* Sums of what programs cause or say end at the largest value, and do not begin again at 0. */
static inline u64 hab_add_saturated(u64 a, u64 b)
{
	u64 sum = a + b;

	return sum < a ? ~0ull : sum;
}

#endif /* HAB_CORE_ARITHMETIC_H */
