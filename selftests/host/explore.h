/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Runs a few threads through all their interleavings: a model checker for real code whose
 * shared accesses are those of os_explored.h.
 *
 * At each explore_point() the running thread goes on, or another one does, or it is moved to
 * another CPU; a run that ended is repeated with the last choice changed that has not had all
 * its values, until there is none. How often a thread that could go on does not is
 * bounded, as bugs need few preemptions and runs become many (Musuvathi and
 * Qadeer, "Iterative context bounding", PLDI 2007).
 *
 * CPUs are there for what restartable sequences know of them: on each CPU one thread is
 * current, and a thread that stops being it, or is moved, while in a section has to restart.
 */
#ifndef HAB_TEST_EXPLORE_H
#define HAB_TEST_EXPLORE_H

#include <stdbool.h>
#include <stdint.h>

#define EXPLORE_THREADS 4u

/**
 * struct explore_model - what is explored
 * @nr_threads: up to EXPLORE_THREADS
 * @nr_cpus: threads begin on CPU number % @nr_cpus, and may be moved to any
 * @preemptions: at most so many in a run
 * @begin: makes everything new
 * @thread: runs thread @number
 * @check: after all have ended; calls explore_fail() if something is wrong
 */
struct explore_model {
	unsigned int nr_threads;
	unsigned int nr_cpus;
	unsigned int preemptions;
	void (*begin)(void);
	void (*thread)(unsigned int number);
	void (*check)(void);
};

/**
 * struct explore_result - what came of it
 * @runs: interleavings that were run
 * @points: the most choices that one had
 * @broken: "", or what was wrong in the last one
 */
struct explore_result {
	uint64_t runs;
	unsigned int points;
	const char *broken;
};

struct explore_lock {
	bool held;
};

struct explore_result explore(const struct explore_model *model);

/* The rest is for the threads. */

void explore_point(void);

/* This run shows a bug; does not return to a thread. */
void explore_fail(const char *what);

unsigned int explore_cpu(void);

/* Pinned, a thread keeps its CPU and is its current one, even while it waits for a lock. */
void explore_pin(bool pinned);

void explore_acquire(struct explore_lock *lock);
void explore_release(struct explore_lock *lock);

/* A restartable section begins. */
void explore_enter_section(void);

/* It ends with the next instruction. False: it was interrupted, and has to restart. */
bool explore_leave_section(void);

/* Whoever is in a section has to restart it, as after membarrier(). */
void explore_stop_sections(void);

#endif /* HAB_TEST_EXPLORE_H */
