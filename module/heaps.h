/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The list of all heaps.
 */
#ifndef HAB_HEAPS_H
#define HAB_HEAPS_H

struct hab_dev_heap;

/**
 * hab_dev_heaps_join - from now on, hab_dev_heaps_each() comes by
 * @heap: complete, and not yet within its user's reach
 * @first: called for it before any other visit can be
 *
 * Context: process; may hold any lock but that of CPU hotplug.
 */
void hab_dev_heaps_join(struct hab_dev_heap *heap, void (*first)(struct hab_dev_heap *heap));

/* Undoes hab_dev_heaps_join(), if that was called; @heap can be freed after. */
void hab_dev_heaps_leave(struct hab_dev_heap *heap);

/**
 * hab_dev_heaps_each - visit every heap there is
 * @visit: may not sleep for long, and takes no lock but a heap's
 * @argument: passed on
 *
 * Context: process; CPU hotplug's lock or that of the tracepoints may be held.
 */
void hab_dev_heaps_each(void (*visit)(struct hab_dev_heap *heap, unsigned int argument),
		    unsigned int argument);

#endif /* HAB_HEAPS_H */
