/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * CPUs that come and go, and what that means for the heaps there are.
 */
#ifndef HAB_HOTPLUG_H
#define HAB_HOTPLUG_H

struct hab_heap;

/**
 * hab_hotplug_init - place the CPUs that are online, and each that comes later
 *
 * Return: 0 or a negative errno. hab_topology_init() goes before.
 */
int hab_hotplug_init(void);

/* Ends that. No heap exists any more. */
void hab_hotplug_exit(void);

/**
 * hab_hotplug_join - from now on, CPUs that go give up their buffers in @heap
 * @heap: complete, and not yet within its user's reach
 *
 * Context: process; may hold any lock but that of CPU hotplug.
 */
void hab_hotplug_join(struct hab_heap *heap);

/* Undoes hab_hotplug_join(), if that was called; @heap can be freed after. */
void hab_hotplug_leave(struct hab_heap *heap);

#endif /* HAB_HOTPLUG_H */
