/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * CPU hotplug: places of CPUs, and retirement of buffers.
 */
#ifndef HAB_HOTPLUG_H
#define HAB_HOTPLUG_H

/**
 * hab_hotplug_init - place the online CPUs, and each that comes online later
 *
 * Call hab_topology_init() first.
 *
 * Return: 0 or a negative errno.
 */
int hab_hotplug_init(void);

/* Ends that. No heap exists. */
void hab_hotplug_exit(void);

#endif /* HAB_HOTPLUG_H */
