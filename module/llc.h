/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The last-level cache of a CPU: by CPUID, or as the kernel says.
 */
#ifndef HAB_LLC_H
#define HAB_LLC_H

#include <linux/cpumask.h>
#include <linux/topology.h>
#include <linux/types.h>

/**
 * hab_llc_key - a key that is the same for all CPUs of one last-level cache
 * @key: the result, below 2^63
 *
 * Context: bound to the CPU in question.
 * Return: false if the CPU does not describe its caches.
 */
bool hab_llc_key(u64 *key);

/**
 * hab_llc_siblings - the online CPUs that share a CPU's last-level cache
 * @cpu: is online
 *
 * Return: NULL if the kernel does not tell modules, as on x86. Only @cpu, if it does not know.
 */
static inline const struct cpumask *hab_llc_siblings(unsigned int cpu)
{
#ifdef CONFIG_GENERIC_ARCH_TOPOLOGY
	return &cpu_topology[cpu].llc_sibling;
#else
	return NULL;
#endif
}

#endif /* HAB_LLC_H */
