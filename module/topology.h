/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Which domain a CPU belongs to, by the kernel's own topology.
 */
#ifndef HAB_TOPOLOGY_H
#define HAB_TOPOLOGY_H

#include <linux/types.h>

int hab_topology_init(void);
void hab_topology_exit(void);

/* Can modules learn this kind (enum hab_domain_kind) on this kernel? */
bool hab_topology_knows(u32 kind);

/**
 * hab_topology_domain - id of a CPU's domain
 * @kind: one that hab_topology_knows()
 * @cpu: online, or was online when it was first asked for
 *
 * Ids are dense, below nr_cpu_ids, and stay the same until the module goes.
 * Domain "cpu" has the CPU's own number.
 *
 * Context: any in which a raw spinlock may be taken.
 * Return: the id, or HAB_DOMAIN_NONE for a CPU that was never online.
 */
u32 hab_topology_domain(u32 kind, unsigned int cpu);

#endif /* HAB_TOPOLOGY_H */
