/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The process's heaps, and the lock of that list: it also guards each heap's list of
 * threads and the counters of those that have gone. It is never held while memory
 * is taken.
 */
#ifndef HAB_LIB_REGISTRY_H
#define HAB_LIB_REGISTRY_H

struct hab_heap;

void hab_registry_lock(void);
void hab_registry_unlock(void);

/* The first heap; struct hab_heap's @next leads on. Lock held. */
struct hab_heap *hab_registry_first(void);

/* Lock held. */
void hab_registry_add(struct hab_heap *heap);
void hab_registry_remove(struct hab_heap *heap);

#endif /* HAB_LIB_REGISTRY_H */
