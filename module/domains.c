// SPDX-License-Identifier: GPL-2.0-only
/*
 * The machine's topology: a dense id for each core, cache, package, node.
 *
 * A CPU keeps its place, also while it is not online: the words of heaps are found by it, and a
 * sibling that comes online while this CPU is offline must get the same domain. The kernel has no
 * domains of a CPU before it is first online, and drops some of them after it went offline. So a
 * CPU's place is read on the CPU itself when it is first online.
 */
#include <linux/nospec.h>
#include <linux/slab.h>
#include <linux/topology.h>

#include "core/hierarchy/topology.h"
#include "module/llc.h"
#include "module/domains.h"

/* In @llc: it is a package's number, because the CPU does not describe its caches. */
#define LLC_IS_PACKAGE BIT_ULL(63)

static bool are_siblings(u32 a, u32 b)
{
	return cpumask_test_cpu(b, topology_sibling_cpumask(a));
}

/* Written by hotplug callbacks, one at a time. */
static struct hab_topology topology = { .are_siblings = are_siblings };

/* On x86 cores have different numbers in each cluster, and 6.1 does not export the cluster's. */
static int cluster_of(unsigned int cpu)
{
	return IS_ENABLED(CONFIG_X86) ? -1 : topology_cluster_id(cpu);
}

/*
 * The key of the cache that @cpu shares with CPUs that have their place; of the first one of them
 * it is its number. The kernel does not say whether a CPU that shares its cache with none has one
 * of its own. As long as no CPU shares one, the package takes the cache's place, as in the kernel's
 * scheduler.
 */
static u64 llc_of(unsigned int cpu)
{
	const struct cpumask *siblings = hab_llc_siblings(cpu);
	bool known = siblings && cpumask_weight(siblings) > 1;
	unsigned int other;
	u64 key;

	if (hab_llc_key(&key))
		return key;
	for_each_possible_cpu(other) {
		const struct hab_place *place = &topology.places[other];

		if (!siblings || place->ids[HAB_DOMAIN_CPU] == HAB_DOMAIN_NONE ||
		    place->llc & LLC_IS_PACKAGE)
			continue;
		if (cpumask_test_cpu(other, siblings))
			return place->llc;
		known = true;
	}
	return known ? cpu : LLC_IS_PACKAGE | (u32)topology.places[cpu].package;
}

void hab_topology_place(unsigned int cpu)
{
	struct hab_place *place = &topology.places[cpu];

	if (place->ids[HAB_DOMAIN_CPU] != HAB_DOMAIN_NONE)
		return;
	place->package = topology_physical_package_id(cpu);
	place->die = topology_die_id(cpu);
	place->cluster = cluster_of(cpu);
	place->core = topology_core_id(cpu);
	place->node = cpu_to_node(cpu);
	place->llc = llc_of(cpu);
	hab_topology_add(&topology, cpu);
}

u32 hab_topology_domain(u32 kind, unsigned int cpu)
{
	/* The kind is from the user, checked when the heap was made. */
	kind = array_index_nospec(kind, HAB_DOMAIN_KINDS);
	return READ_ONCE(topology.places[cpu].ids[kind]);
}

bool hab_topology_was_last(u32 kind, unsigned int cpu)
{
	u32 id = hab_topology_domain(kind, cpu);
	unsigned int other;

	if (id == HAB_DOMAIN_NONE)
		return false;
	for_each_online_cpu(other) {
		if (hab_topology_domain(kind, other) == id)
			return false;
	}
	return true;
}

void hab_topology_cpus(u32 kind, u32 id, struct cpumask *cpus)
{
	unsigned int cpu;

	cpumask_clear(cpus);
	for_each_possible_cpu(cpu) {
		if (hab_topology_domain(kind, cpu) == id)
			cpumask_set_cpu(cpu, cpus);
	}
}

int hab_topology_init(void)
{
	unsigned int cpu;

	topology.places = kvcalloc(nr_cpu_ids, sizeof(*topology.places), GFP_KERNEL);
	if (!topology.places)
		return -ENOMEM;
	topology.nr_cpus = nr_cpu_ids;
	for (cpu = 0; cpu < nr_cpu_ids; cpu++)
		memset(topology.places[cpu].ids, 0xff, sizeof(topology.places[cpu].ids));
	return 0;
}

void hab_topology_exit(void)
{
	kvfree(topology.places);
	topology.places = NULL;
}
