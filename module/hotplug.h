/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * CPUs that come and go, and what that means for the heaps there are.
 */
#ifndef HAB_HOTPLUG_H
#define HAB_HOTPLUG_H

/**
 * hab_hotplug_init - place the CPUs that are online, and each that comes later
 *
 * Return: 0 or a negative errno. hab_topology_init() goes before.
 */
int hab_hotplug_init(void);

/* Ends that. No heap exists any more. */
void hab_hotplug_exit(void);

#endif /* HAB_HOTPLUG_H */
