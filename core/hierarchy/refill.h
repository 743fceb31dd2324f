/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What happens to the words during a refill: the books are hierarchy.h's.
 *
 * Everything here runs under the heap's lock, while programs go on moving the words. A
 * single CPU's word is moved by plain stores in restartable sections on that CPU, a shared
 * one by cmpxchg.
 *
 * explore_refill_test.c runs this code through all interleavings.
 */
#ifndef HAB_CORE_REFILL_H
#define HAB_CORE_REFILL_H

#include "core/hierarchy/hierarchy.h"

/**
 * hab_hierarchy_refill - refill as somebody who stays on his CPU
 * @h: the books
 * @domains: that CPU's, at each level; he cannot be moved, and no section runs there
 * @least: smallest chunk that serves, at least 1 granule
 * @want: chunk asked for
 * @entered: as in hab_hierarchy_plan()
 * @clock: for hab_hierarchy_commit()
 * @plan: what was done; its @granted is 0 if the chunk came from what the word had left
 *
 * Return: 0; -EAGAIN if others kept winning a shared word; -ENOMEM as from
 * hab_hierarchy_plan().
 */
int hab_hierarchy_refill(struct hab_hierarchy *h, const u32 *domains, u64 least, u64 want, u64 entered,
	       u64 (*clock)(const struct hab_hierarchy *h), struct hab_plan *plan);

/**
 * hab_hierarchy_collect - the rests in all lowest buffers become the heap's
 * @h: the books
 * @emptied: room for a word a domain
 * @stop_sections: stops the section that any CPU is in; when it returns 0, each that had
 *	begun before has ended or will begin again
 *
 * Return: whether the heap has more rests now. Where @stop_sections fails the words are what
 * they were, or what sections have made of them since.
 */
bool hab_hierarchy_collect(struct hab_hierarchy *h, u64 *emptied, int (*stop_sections)(void));

#endif /* HAB_CORE_REFILL_H */
