/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Runs a few threads through all their interleavings: a model checker for real code whose shared
 * accesses are those of os_explored.h.
 *
 * At each explore_point() the running thread continues, or another one does, or it is moved to
 * another CPU. A run that ended is repeated with the last choice changed that has values left,
 * until there is none. The number of preemptions in a run is bounded, because bugs need few of them
 * and the runs become many (Musuvathi and Qadeer, "Iterative context bounding", PLDI 2007).
 *
 * CPUs are modelled as restartable sequences need them: on each CPU one thread is current, and a
 * thread that stops being current, or is moved, while in a section has to restart.
 */
#ifndef HAB_TEST_EXPLORE_H
#define HAB_TEST_EXPLORE_H

#include <stdbool.h>
#include <stdint.h>

#include "weak.h"

#define EXPLORE_THREADS WEAK_THREADS

/**
 * struct explore_model - the explored program
 * @nr_threads: up to EXPLORE_THREADS
 * @nr_cpus: threads begin on CPU number % @nr_cpus, and may be moved to any
 * @preemptions: at most so many in a run
 * @stale: at most so many loads in a run give an older value (weak.h); 0: memory has one order
 * @exchanges_are_barriers: as in the kernel; else they are an acquire and a release, as on arm64
 *	without LSE
 * @begin: initializes everything
 * @thread: runs thread @number
 * @check: called when all threads have ended; calls explore_fail() if something is wrong
 */
struct explore_model {
	unsigned int nr_threads;
	unsigned int nr_cpus;
	unsigned int preemptions;
	unsigned int stale;
	bool exchanges_are_barriers;
	void (*begin)(void);
	void (*thread)(unsigned int number);
	void (*check)(void);
};

/**
 * struct explore_result - the outcome
 * @runs: interleavings that were run
 * @choices: the largest number of choices in a run
 * @broken: "", or the error of the last run
 */
struct explore_result {
	uint64_t runs;
	unsigned int choices;
	const char *broken;
};

/* For a test of the model. */
#define HOLDS(result)                                                            \
	do {                                                                     \
		struct explore_result of = result;                               \
                                                                                 \
		TH_LOG("%lu runs, up to %u choices", (long)of.runs, of.choices); \
		EXPECT_STREQ("", of.broken);                                     \
	} while (0)

/* For a test of the model with a bug, which has to be found: by this error. */
#define FINDS(result, error)                                            \
	do {                                                            \
		struct explore_result of = result;                      \
                                                                        \
		TH_LOG("after %lu runs: %s", (long)of.runs, of.broken); \
		EXPECT_STREQ(error, of.broken);                         \
	} while (0)

struct explore_lock {
	bool held;
};

struct explore_result explore(const struct explore_model *model);

/* The following are for the explored threads. */

void explore_point(void);

/* Ends the run as a failure; does not return to a thread. */
void explore_fail(const char *what);

unsigned int explore_cpu(void);

/* A pinned thread keeps its CPU and is current on it, even while it waits for a lock. */
void explore_pin(bool pinned);

/* The thread goes on on @cpu, pinned. Another one that was in a section there has to restart it. */
void explore_move(unsigned int cpu);

void explore_acquire(struct explore_lock *lock);
void explore_release(struct explore_lock *lock);

/* A restartable section begins. */
void explore_enter_section(void);

/* The next instruction commits. False: the section was interrupted, and has to restart. */
bool explore_leave_section(void);

/* Every thread in a section has to restart it; or also has seen all stores, as by membarrier(). */
void explore_restart_sections(void);
void explore_stop_sections(void);

#endif /* HAB_TEST_EXPLORE_H */
