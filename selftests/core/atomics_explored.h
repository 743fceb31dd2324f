/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The compiler's atomic operations for tests that run all interleavings, in addition to
 * os_explored.h: those that lib/telemetry uses. Included before the code.
 */
#ifndef HAB_TEST_ATOMICS_EXPLORED_H
#define HAB_TEST_ATOMICS_EXPLORED_H

#define EXPLORED_ORDER(order)                               \
	((order) == __ATOMIC_RELAXED ? WEAK_RELAXED :       \
	 (order) == __ATOMIC_ACQUIRE ? WEAK_ACQUIRE :       \
	 (order) == __ATOMIC_RELEASE ? WEAK_RELEASE : WEAK_BOTH)

#define EXPLORED_CHANGE(p, value, order)                                                  \
	({                                                                                \
		__typeof__(*(p)) old;                                                     \
                                                                                          \
		explore_point();                                                          \
		weak_exchange_begins(p, sizeof(*(p)), EXPLORED_ORDER(order), __func__);   \
		old = *(p);                                                               \
		explore_tear();                                                           \
		weak_exchange_stores(p, sizeof(*(p)), (__typeof__(*(p)))(value),          \
				     EXPLORED_ORDER(order), __func__);                    \
		old;                                                                      \
	})

#define __atomic_fetch_and(p, v, order)	 EXPLORED_CHANGE(p, old & (v), order)
#define __atomic_fetch_or(p, v, order)	 EXPLORED_CHANGE(p, old | (v), order)
#define __atomic_fetch_add(p, v, order)	 EXPLORED_CHANGE(p, old + (v), order)
#define __atomic_fetch_sub(p, v, order)	 EXPLORED_CHANGE(p, old - (v), order)
#define __atomic_exchange_n(p, v, order) EXPLORED_CHANGE(p, v, order)

#define __atomic_add_fetch(p, v, order)	 (__atomic_fetch_add(p, v, order) + (v))

/* Returns whether it has stored @value. */
#define __atomic_compare_exchange_n(p, expected, value, is_weak, order, failed)           \
	({                                                                                \
		__typeof__(*(p)) there;                                                   \
		bool stores;                                                              \
                                                                                          \
		explore_point();                                                          \
		there = *(p);                                                             \
		stores = there == *(expected);                                            \
		weak_exchange_begins(p, sizeof(*(p)),                                     \
				     stores ? EXPLORED_ORDER(order) : EXPLORED_ORDER(failed), \
				     __func__);                                           \
		explore_tear();                                                           \
		if (stores)                                                               \
			weak_exchange_stores(p, sizeof(*(p)), (u64)(value),               \
					     EXPLORED_ORDER(order), __func__);            \
		*(expected) = there;                                                      \
		stores;                                                                   \
	})

#define __atomic_thread_fence(order)                          \
	do {                                                  \
		explore_point();                              \
		weak_fence(EXPLORED_ORDER(order), __func__);  \
	} while (0)

#endif /* HAB_TEST_ATOMICS_EXPLORED_H */
