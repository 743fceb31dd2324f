/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Weakly ordered memory for explored threads: a load may give an older value than the last one, as
 * store buffers and loads out of order have it.
 *
 * Each location has all values that were stored to it in a run, in one order. A thread has seen
 * some of them, and may load any that is not older than what it has seen: of that location itself,
 * and by what it has acquired (Kang and others, "A promising semantics for relaxed-memory
 * concurrency", POPL 2017, without promises: no load gives a value of the future). An address that
 * was loaded orders the loads at it, as CPUs do. Accesses that are not marked have the last value.
 */
#ifndef HAB_TEST_WEAK_H
#define HAB_TEST_WEAK_H

#include <stdbool.h>
#include <stdint.h>

enum weak_order {
	WEAK_RELAXED,
	WEAK_ACQUIRE,
	WEAK_RELEASE,
	WEAK_BOTH,
	WEAK_FAILED, /* a cmpxchg that stores nothing */
};

/* A seeded bug: in the function of that name all accesses are relaxed; NULL: in none. */
extern const char *weak_relaxed_in;

uint64_t weak_load(const void *address, unsigned int size, enum weak_order order,
		   const char *function);
void weak_store(void *address, unsigned int size, uint64_t value, enum weak_order order,
		const char *function);

/* Before and after the store of an exchange: its load has the last value. */
void weak_exchange_begins(const void *address, unsigned int size, enum weak_order order,
			  const char *function);
void weak_exchange_stores(void *address, unsigned int size, uint64_t value, enum weak_order order,
			  const char *function);

/* The loads before it acquire, the stores behind it release; or it is a full barrier. */
void weak_fence(enum weak_order order, const char *function);

/* --- for explore.c ------------------------------------------------------------------------ */

#define WEAK_THREADS 4u

struct weak_explorer {
	unsigned int (*thread)(void);
	bool (*is_running)(void);
	unsigned int (*choose)(unsigned int options);
	void (*fail)(const char *what);
};

/* A new run; at most @stale loads of it give an older value. */
void weak_begin(const struct weak_explorer *explorer, unsigned int stale,
		bool exchanges_are_barriers);

/* What @thread has seen is seen by what next takes the CPU, or the lock; and the reverse. */
void weak_leave_cpu(unsigned int thread, unsigned int cpu);
void weak_take_cpu(unsigned int thread, unsigned int cpu);
void weak_release_lock(unsigned int thread, const void *lock);
void weak_acquire_lock(unsigned int thread, const void *lock);

/* All threads have seen what any has. */
void weak_barrier_of_all(void);

#endif /* HAB_TEST_WEAK_H */
