/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Restartable sequences: the registration of a thread, and the sections that libhab uses.
 *
 *	hab_rseq_take_store		take from a word of one CPU
 *	hab_rseq_take_cmpxchg		take from a word that several CPUs share
 *	hab_rseq_exchange		put a new word in place, for the process backend's refill
 *	hab_rseq_list_pop		pop a chunk from a list of free chunks of one CPU
 *
 * Names with _cid are of the same sections for words and lists of one concurrency id (cid): the
 * kernel gives each thread that runs one that no other running thread of the process has. Names
 * with _verify are of sections that also read the hardware's CPU number.
 *
 * sections.h makes them, from the instructions in one header per architecture. Without one, or if
 * the kernel refuses, callers use refills instead, which are slower and just as exact.
 *
 * All sections have the same arguments and results. The caller reads @cpu with hab_rseq_cpu(),
 * chooses the word of that CPU, and calls. The section commits in one instruction, and only if the
 * thread is still on @cpu and was neither preempted nor signalled since the section began. Nor can
 * its cid have changed then: the kernel gives a thread another one only while it does not run.
 *
 *	area	the thread's rseq area
 *	cpu	the CPU that the thread is on, to which the word belongs
 *	cid	the thread's cid, to which the word belongs; only sections of cids read it
 *	word	the word
 *	operand	take: granules * HAB_WORD_STEP, negated; exchange: the new word; pop: not used
 *	out	set if the result is HAB_RSEQ_DONE
 *
 *	HAB_RSEQ_DONE		committed on @cpu
 *	HAB_RSEQ_EMPTY		fewer granules are free in the word, or the list is empty; nothing
 *				changed
 *	HAB_RSEQ_RESTART	another CPU, or interrupted; nothing changed
 *	HAB_RSEQ_CONFLICT	another CPU changed the word; nothing changed
 *	HAB_RSEQ_NOT_TRIED	no section ran (for callers; no section returns it)
 */
#ifndef HAB_LIB_RSEQ_H
#define HAB_LIB_RSEQ_H

#include <linux/rseq.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/rseq/sections.h"
#include "lib/rseq/tls.h"

/*
 * A section that has failed so often may never end: a debugger that steps through it interrupts it
 * each time. Then the caller does without.
 */
#define HAB_RSEQ_TRIES 64

/* Which code registered this process's threads. */
enum hab_rseq_owner {
	HAB_RSEQ_NONE, /* none: kernel, seccomp or architecture forbid it */
	HAB_RSEQ_LIBC,
	HAB_RSEQ_OWN,
};

extern ptrdiff_t hab_rseq_offset; /* from the thread pointer, the same for all threads */

/**
 * hab_rseq_attach - make sure that the calling thread can run sections
 *
 * The first call decides for the process; later threads register likewise.
 *
 * Return: the owner; HAB_RSEQ_NONE if this thread cannot run sections.
 */
enum hab_rseq_owner hab_rseq_attach(void);

/* Whether the kernel writes the cids of threads: from Linux 6.3 on. */
bool hab_rseq_has_cids(void);

/* The reason for HAB_RSEQ_NONE, in a few words. */
const char *hab_rseq_reason(void);

/* How it is known that this kernel restarts sections: by a trial, or by nothing against it. */
const char *hab_rseq_judged(void);

/* Undoes the library's own registration of the calling thread. */
void hab_rseq_detach(void);

static inline hab_tls_rseq *hab_rseq_area(void)
{
	return hab_tls_rseq_at(hab_rseq_offset);
}

#endif /* HAB_LIB_RSEQ_H */
