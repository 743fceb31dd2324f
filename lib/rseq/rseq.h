/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Restartable sequences: the registration of a thread, and the three sections
 * that libhab uses. One header an architecture has the sections; without one, or
 * when the kernel refuses, callers take the slow but just as exact way round.
 *
 * All sections share this contract. The caller read @cpu with hab_rseq_cpu(),
 * chose the word that belongs to it, and calls. The section commits in one
 * instruction, and only if the thread is still on @cpu and was neither preempted
 * nor signalled since the section began.
 *
 *	HAB_RSEQ_DONE		committed on @cpu
 *	HAB_RSEQ_EMPTY		too little left in the word; nothing changed
 *	HAB_RSEQ_RESTART	other CPU, or interrupted; nothing changed
 *	HAB_RSEQ_CONFLICT	another CPU of the domain moved the word; nothing changed
 *
 * The two sections of the fast path, hab_rseq_take_exact_store() and _cmpxchg(), take
 * @step (granules times HAB_WORD_STEP) or nothing; *old_word is set if they did.
 */
#ifndef HAB_LIB_RSEQ_H
#define HAB_LIB_RSEQ_H

#include <linux/rseq.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "uapi/hab.h"
#include "lib/rseq/tls.h"

enum hab_rseq_result {
	HAB_RSEQ_DONE = 0,
	HAB_RSEQ_EMPTY = 1,
	HAB_RSEQ_RESTART = 2,
	HAB_RSEQ_CONFLICT = 3,
};

/**
 * struct hab_rseq_take - a take and its outcome
 * @least: granules that serve at the least
 * @want: granules asked for
 * @old: out: the word before
 * @taken: out: granules taken
 * @hardware_cpu: out: the CPU number that the hardware gave inside the section,
 *	by the verifying sections only
 */
struct hab_rseq_take {
	uint64_t least;
	uint64_t want;
	uint64_t old;
	uint64_t taken;
	uint32_t hardware_cpu;
};

/* Who registered this process's threads. */
enum hab_rseq_owner {
	HAB_RSEQ_NONE, /* nobody: kernel, seccomp or architecture forbid it */
	HAB_RSEQ_LIBC,
	HAB_RSEQ_OWN,
};

extern ptrdiff_t hab_rseq_offset; /* from the thread pointer, the same for all threads */

/**
 * hab_rseq_attach - make sure that the calling thread can run sections
 *
 * The first call decides for the process; later threads register likewise.
 *
 * Return: who registered; HAB_RSEQ_NONE if this thread cannot run sections.
 */
enum hab_rseq_owner hab_rseq_attach(void);

/* If there are none, the reason in a few words. */
const char *hab_rseq_why_not(void);

/* Undoes an own registration of the calling thread. */
void hab_rseq_detach(void);

static inline struct rseq *hab_rseq_area(void)
{
	return (struct rseq *)((char *)__builtin_thread_pointer() + hab_rseq_offset);
}

static inline uint32_t hab_rseq_cpu(const struct rseq *area)
{
	return __atomic_load_n(&area->cpu_id_start, __ATOMIC_RELAXED);
}

#if defined(__x86_64__) && !defined(HAB_NO_RSEQ)
#include "lib/rseq/rseq-x86.h"
#else
#include "lib/rseq/rseq-none.h"
#endif

#endif /* HAB_LIB_RSEQ_H */
