/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The words during a refill; hierarchy.h has the books.
 *
 * Everything here runs under the heap's lock, while programs continue to move the words: the word
 * of a single CPU by plain stores in rseq sections on that CPU, a shared word by cmpxchg.
 *
 * explore_refill_test.c runs this code through all interleavings.
 */
#ifndef HAB_CORE_REFILL_H
#define HAB_CORE_REFILL_H

#include "core/hierarchy/hierarchy.h"

/**
 * hab_hierarchy_refill - refill by a caller that stays on its CPU
 * @h: the books
 * @domains: the CPU's domain at each level; no section runs on that CPU meanwhile
 * @least: smallest chunk that serves, at least 1 granule
 * @want: requested size of the chunk
 * @entered: as in hab_hierarchy_plan()
 * @clock: for hab_hierarchy_commit()
 * @plan: the refill, done; its @granted is 0 if the word still had enough
 *
 * Return: 0; -EAGAIN if other CPUs kept moving a shared word, or during a reset; -ENOMEM as
 * hab_hierarchy_plan().
 */
int hab_hierarchy_refill(struct hab_hierarchy *h, const u32 *domains, u64 least, u64 want,
			 u64 entered, u64 (*clock)(const struct hab_hierarchy *h),
			 struct hab_plan *plan);

/* The results of HAB_IOC_REFILL for a plan that was committed on @cpu. */
void hab_plan_answer(const struct hab_plan *plan, u32 cpu, struct hab_ioc_refill *refill);

/**
 * hab_hierarchy_collect_words - retire all lowest buffers
 * @h: the books
 * @emptied: room for one word per domain
 * @stop_sections: restarts the sections that run on all CPUs; when it returns 0, each section that
 *	had begun before has ended or will restart
 *
 * Return: true if there is more memory in free extents now. If @stop_sections fails the words are
 * as before, or as sections have moved them since.
 */
bool hab_hierarchy_collect_words(struct hab_hierarchy *h, u64 *emptied, int (*stop_sections)(void));

#endif /* HAB_CORE_REFILL_H */
