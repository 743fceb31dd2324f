/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * core/os.h for tests that run all interleavings: at each access to shared memory another thread
 * may continue. It is included first and has the include guard of core/os.h, which is then empty.
 *
 * Where the model has @stale, loads give older values, too (weak.h).
 */
#ifndef HAB_CORE_OS_H
#define HAB_CORE_OS_H

#include <errno.h>
#include <string.h>

#include "core/arithmetic.h"
#include "selftests/core/weak.h"

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

#define HAB_LOAD(x, order)                                                                 \
	({                                                                                 \
		explore_point();                                                           \
		(__typeof__((x) + 0))weak_load((const void *)&(x), sizeof(x), order, __func__); \
	})
#define HAB_STORE(x, v, order)                                                             \
	do {                                                                               \
		__typeof__(x) value_ = (v);                                                \
                                                                                           \
		explore_point();                                                           \
		weak_store((void *)&(x), sizeof(x), (u64)value_, order, __func__);         \
	} while (0)
#define READ_ONCE(x)		HAB_LOAD(x, WEAK_RELAXED)
#define WRITE_ONCE(x, v)	HAB_STORE(x, v, WEAK_RELAXED)
#define hab_load_acquire(p)	HAB_LOAD(*(p), WEAK_ACQUIRE)
#define hab_store_release(p, v) HAB_STORE(*(p), v, WEAK_RELEASE)

/* Between the load and the store of a seeded bug. */
static inline void explore_tear(void)
{
	if (explore_torn)
		explore_point();
}

static inline u64 explored_exchange(u64 *word, u64 value, const char *function)
{
	u64 old;

	explore_point();
	weak_exchange_begins(word, sizeof(*word), WEAK_BOTH, function);
	old = *word;
	explore_tear();
	weak_exchange_stores(word, sizeof(*word), value, WEAK_BOTH, function);
	return old;
}

static inline u64 explored_cmpxchg(u64 *word, u64 old, u64 value, const char *function)
{
	u64 found;

	explore_point();
	found = *word;
	/* One that fails orders nothing in the kernel, and is an acquire in user space. */
	weak_exchange_begins(word, sizeof(*word), found == old ? WEAK_BOTH : WEAK_FAILED, function);
	explore_tear();
	if (found == old)
		weak_exchange_stores(word, sizeof(*word), value, WEAK_BOTH, function);
	return found;
}

static inline u64 explored_increment(u64 *word, enum weak_order order, const char *function)
{
	u64 value;

	explore_point();
	weak_exchange_begins(word, sizeof(*word), order, function);
	value = *word + 1;
	explore_tear();
	weak_exchange_stores(word, sizeof(*word), value, order, function);
	return value;
}

/* Macros, so that the function is that of the code. */
#define hab_word_exchange(word, value)	   explored_exchange(word, value, __func__)
#define hab_word_cmpxchg(word, old, value) explored_cmpxchg(word, old, value, __func__)

#define hab_counter_read(counter)	 READ_ONCE((counter)->value)
#define hab_counter_set(counter, v)	 WRITE_ONCE((counter)->value, v)
#define hab_counter_set_release(counter, v) HAB_STORE((counter)->value, v, WEAK_RELEASE)
#define hab_counter_increment(counter)	 explored_increment(&(counter)->value, WEAK_RELAXED, __func__)
#define hab_counter_increment_acquire(counter) \
	explored_increment(&(counter)->value, WEAK_ACQUIRE, __func__)
#define hab_counter_exchange(counter, v) hab_word_exchange(&(counter)->value, v)
#define hab_counter_cmpxchg(counter, old, v) hab_word_cmpxchg(&(counter)->value, old, v)

#endif /* HAB_CORE_OS_H */
