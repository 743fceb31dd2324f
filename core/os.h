/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * All that core/ needs of the kernel or of user space: types and arithmetic (arithmetic.h), single
 * loads and stores, and a 64-bit atomic counter. core/ includes nothing else.
 */
#ifndef HAB_CORE_OS_H
#define HAB_CORE_OS_H

#include "core/arithmetic.h"

#ifdef __KERNEL__

#include <linux/atomic.h>
#include <linux/compiler.h>
#include <linux/errno.h>
#include <linux/string.h>

typedef atomic64_t hab_counter;

static inline u64 hab_counter_read(const hab_counter *counter)
{
	return atomic64_read(counter);
}

static inline u64 hab_counter_increment(hab_counter *counter)
{
	return atomic64_inc_return_relaxed(counter);
}

/* The same; all that was written before the last release of the counter is visible. */
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
#include <string.h>

typedef struct {
	u64 value;
} hab_counter;

#define READ_ONCE(x)		__atomic_load_n(&(x), __ATOMIC_RELAXED)
#define WRITE_ONCE(x, v)	__atomic_store_n(&(x), (v), __ATOMIC_RELAXED)

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
