/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
#ifndef HAB_LIB_CPU_DOMAINS_H
#define HAB_LIB_CPU_DOMAINS_H

#include <stdint.h>

/* CPU numbers are below this, also of CPUs that are not there yet. */
uint32_t hab_topology_nr_cpus(void);

/**
 * hab_topology_fill - each CPU's domain
 * @kind: enum hab_domain_kind
 * @domains: room for @nr_cpus; ids are dense, or the CPU number for domain cpu
 * @nr_cpus: as hab_topology_nr_cpus()
 *
 * A CPU that sysfs does not show gets a domain of its own.
 */
void hab_topology_fill(uint32_t kind, uint32_t *domains, uint32_t nr_cpus);

/* The number of domains of a kind. */
uint32_t hab_topology_count(uint32_t kind);

#endif /* HAB_LIB_CPU_DOMAINS_H */
