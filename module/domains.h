/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The domains of a CPU, by the kernel's topology.
 */
#ifndef HAB_DOMAINS_H
#define HAB_DOMAINS_H

#include <linux/cpumask.h>
#include <linux/types.h>

int hab_topology_init(void);
void hab_topology_exit(void);

/**
 * hab_topology_place - give a CPU its domains, the first time it is online
 * @cpu: the CPU this runs on
 *
 * Context: a CPU hotplug callback, so one at a time.
 */
void hab_topology_place(unsigned int cpu);

/**
 * hab_topology_domain - id of a CPU's domain
 * @kind: enum hab_domain_kind
 * @cpu: below nr_cpu_ids
 *
 * Ids are dense, below nr_cpu_ids, and stay the same until the module is unloaded. The id of domain
 * "cpu" is the CPU's number.
 *
 * Context: any.
 * Return: the id, or HAB_DOMAIN_NONE for a CPU that was never online.
 */
u32 hab_topology_domain(u32 kind, unsigned int cpu);

/**
 * hab_topology_was_last - true if @cpu was the last online CPU of its domain
 * @kind: enum hab_domain_kind
 * @cpu: a CPU that is offline
 *
 * Context: a CPU hotplug callback, so that it stays true while that runs.
 */
bool hab_topology_was_last(u32 kind, unsigned int cpu);

/**
 * hab_topology_cpus - the CPUs of a domain
 * @kind: enum hab_domain_kind
 * @id: of the domain
 * @cpus: set to its CPUs that were ever online
 */
void hab_topology_cpus(u32 kind, u32 id, struct cpumask *cpus);

#endif /* HAB_DOMAINS_H */
