/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * core/os.h for tests that run all interleavings: at each access to shared memory another thread
 * may continue. It is included first and has the include guard of core/os.h, which is then empty.
 *
 * All CPUs see memory in one order: effects of missing barriers are not explored.
 */
#ifndef HAB_CORE_OS_H
#define HAB_CORE_OS_H

#include <errno.h>
#include <string.h>

#include "core/arithmetic.h"

typedef struct {
	u64 value;
} hab_counter;

void explore_point(void);

/* A seeded bug: exchanges, increments and cmpxchg become a load and a store. */
extern bool explore_torn;

/* Few shares, so that a rotation is short. */
#define HAB_SHARES	 2u
#define HAB_GROUP_SHARES 3u

/* Short steps: one for each buffer of one level. */
#define HAB_STEP_BUFFERS 1u
#define HAB_SEGMENTS	 2u

#define READ_ONCE(x)                             \
	({                                       \
		explore_point();                 \
		*(volatile __typeof__(x) *)&(x); \
	})
#define WRITE_ONCE(x, v)                               \
	do {                                           \
		explore_point();                       \
		*(volatile __typeof__(x) *)&(x) = (v); \
	} while (0)
#define hab_load_acquire(p)	READ_ONCE(*(p))
#define hab_store_release(p, v) WRITE_ONCE(*(p), v)

/* Between the load and the store of a seeded bug. */
static inline void explore_tear(void)
{
	if (explore_torn)
		explore_point();
}

static inline u64 hab_word_exchange(u64 *word, u64 value)
{
	u64 old;

	explore_point();
	old = *word;
	explore_tear();
	*word = value;
	return old;
}

static inline u64 hab_word_cmpxchg(u64 *word, u64 old, u64 value)
{
	u64 found;

	explore_point();
	found = *word;
	explore_tear();
	if (found == old)
		*word = value;
	return found;
}

static inline u64 hab_counter_read(const hab_counter *counter)
{
	return READ_ONCE(counter->value);
}

static inline u64 hab_counter_increment(hab_counter *counter)
{
	u64 value;

	explore_point();
	value = counter->value + 1;
	explore_tear();
	counter->value = value;
	return value;
}

static inline u64 hab_counter_increment_acquire(hab_counter *counter)
{
	return hab_counter_increment(counter);
}

static inline void hab_counter_set(hab_counter *counter, u64 value)
{
	WRITE_ONCE(counter->value, value);
}

static inline void hab_counter_set_release(hab_counter *counter, u64 value)
{
	WRITE_ONCE(counter->value, value);
}

static inline u64 hab_counter_exchange(hab_counter *counter, u64 value)
{
	return hab_word_exchange(&counter->value, value);
}

static inline u64 hab_counter_cmpxchg(hab_counter *counter, u64 old, u64 value)
{
	return hab_word_cmpxchg(&counter->value, old, value);
}

#endif /* HAB_CORE_OS_H */
