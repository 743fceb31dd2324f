/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The list of the process's heaps. fork() walks it. Its lock is hab_thread_lock().
 */
#ifndef HAB_LIB_REGISTRY_H
#define HAB_LIB_REGISTRY_H

#include "lib/backend/forked.h"

struct hab_heap;

/* Makes fork() keep heaps usable in the child, from the first call on; 0 or a negative errno. */
int hab_registry_init(void);

void hab_registry_add_locked(struct hab_heap *heap);
void hab_registry_remove_locked(struct hab_heap *heap);

/* The first heap that @fits, or NULL. */
struct hab_heap *hab_registry_find_locked(bool (*fits)(const struct hab_heap *heap));

/* In a child that no handler of fork() has seen: what that would have done. */
void hab_registry_begin_child(void);

/* Before a heap's backend or lists are used, other than to take a chunk in a section. */
static inline void hab_registry_notice_child(void)
{
	if (__builtin_expect(hab_forked(), 0))
		hab_registry_begin_child();
}

#endif /* HAB_LIB_REGISTRY_H */
