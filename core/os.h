/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * All that core/ needs of the world it is compiled into: integer types, single
 * loads and stores, a 64-bit atomic counter and 128-bit products. One section
 * for the kernel, one for user space; core/ includes nothing else.
 */
#ifndef HAB_CORE_OS_H
#define HAB_CORE_OS_H

#ifdef __KERNEL__

#include <linux/atomic.h>
#include <linux/bitops.h>
#include <linux/compiler.h>
#include <linux/errno.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/string.h>
#include <linux/types.h>

typedef atomic64_t hab_counter;

static inline u64 hab_counter_read(const hab_counter *counter)
{
	return atomic64_read(counter);
}

static inline u64 hab_counter_increment(hab_counter *counter)
{
	return atomic64_inc_return_relaxed(counter);
}

/* The same; what was written before the value that it counts on from is visible. */
static inline u64 hab_counter_increment_acquire(hab_counter *counter)
{
	return atomic64_inc_return_acquire(counter);
}

static inline void hab_counter_set(hab_counter *counter, u64 value)
{
	atomic64_set(counter, value);
}

static inline void hab_counter_set_release(hab_counter *counter, u64 value)
{
	atomic64_set_release(counter, value);
}

static inline u64 hab_counter_exchange(hab_counter *counter, u64 value)
{
	return atomic64_xchg(counter, value);
}

/* The value found, which is @old if it was replaced. */
static inline u64 hab_counter_cmpxchg(hab_counter *counter, u64 old, u64 value)
{
	return atomic64_cmpxchg(counter, old, value);
}

/* a * b / c; the caller knows that it fits. */
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

static inline u64 hab_word_exchange(u64 *word, u64 value)
{
	return xchg(word, value);
}

/* The value found, which is @old if it was replaced. */
static inline u64 hab_word_cmpxchg(u64 *word, u64 old, u64 value)
{
	return cmpxchg(word, old, value);
}

#define hab_load_acquire(p)	smp_load_acquire(p)
#define hab_store_release(p, v) smp_store_release(p, v)

#else /* user space */

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

typedef uint64_t u64;
typedef uint32_t u32;

typedef struct {
	u64 value;
} hab_counter;

#define READ_ONCE(x)	 __atomic_load_n(&(x), __ATOMIC_RELAXED)
#define WRITE_ONCE(x, v) __atomic_store_n(&(x), (v), __ATOMIC_RELAXED)

#ifndef min
#define min(a, b) ((a) < (b) ? (a) : (b))
#endif
#ifndef max
#define max(a, b) ((a) > (b) ? (a) : (b))
#endif

static inline u64 hab_counter_read(const hab_counter *counter)
{
	return READ_ONCE(counter->value);
}

static inline u64 hab_counter_increment(hab_counter *counter)
{
	return __atomic_add_fetch(&counter->value, 1, __ATOMIC_RELAXED);
}

static inline u64 hab_counter_increment_acquire(hab_counter *counter)
{
	return __atomic_add_fetch(&counter->value, 1, __ATOMIC_ACQUIRE);
}

static inline void hab_counter_set(hab_counter *counter, u64 value)
{
	WRITE_ONCE(counter->value, value);
}

static inline void hab_counter_set_release(hab_counter *counter, u64 value)
{
	__atomic_store_n(&counter->value, value, __ATOMIC_RELEASE);
}

static inline u64 hab_counter_exchange(hab_counter *counter, u64 value)
{
	return __atomic_exchange_n(&counter->value, value, __ATOMIC_SEQ_CST);
}

static inline u64 hab_counter_cmpxchg(hab_counter *counter, u64 old, u64 value)
{
	__atomic_compare_exchange_n(&counter->value, &old, value, 0, __ATOMIC_SEQ_CST,
				    __ATOMIC_SEQ_CST);
	return old;
}

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

static inline u64 hab_word_exchange(u64 *word, u64 value)
{
	return __atomic_exchange_n(word, value, __ATOMIC_SEQ_CST);
}

static inline u64 hab_word_cmpxchg(u64 *word, u64 old, u64 value)
{
	__atomic_compare_exchange_n(word, &old, value, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
	return old;
}

#define hab_load_acquire(p)	__atomic_load_n(p, __ATOMIC_ACQUIRE)
#define hab_store_release(p, v) __atomic_store_n(p, v, __ATOMIC_RELEASE)

#endif /* __KERNEL__ */
#endif /* HAB_CORE_OS_H */
