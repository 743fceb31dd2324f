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

#include "uapi/hab.h"
#include "module/llc.h"
#include "module/topology.h"

/* In @llc: it is a package's number, because the CPU does not describe its caches. */
#define LLC_IS_PACKAGE BIT_ULL(63)

/**
 * struct place - a CPU's place
 * @ids: of its domains. Written by hotplug callbacks, one at a time; each is valid by itself and
 *	read at any time
 * @package: the kernel's number, negative if it has none
 * @die: likewise, within the package
 * @core: likewise, within the die
 * @node: likewise
 * @llc: key of the last-level cache
 */
struct place {
	u32 ids[HAB_DOMAIN_KINDS];
	int package;
	int die;
	int core;
	int node;
	u64 llc;
};

static struct place *places; /* nr_cpu_ids of them */
static u32 nr_ids[HAB_DOMAIN_KINDS];

/*
 * The kernel's mask is right for unusual processors but has only online siblings. The numbers, if
 * there are any, include offline siblings.
 */
static bool same_core(unsigned int a, unsigned int b)
{
	const struct place *place = &places[a], *other = &places[b];

	if (cpumask_test_cpu(b, topology_sibling_cpumask(a)))
		return true;
	return place->package >= 0 && place->package == other->package &&
	       place->die == other->die && place->core == other->core;
}

static bool same_domain(u32 kind, unsigned int a, unsigned int b)
{
	switch (kind) {
	case HAB_DOMAIN_CORE:
		return same_core(a, b);
	case HAB_DOMAIN_LLC:
		return places[a].llc == places[b].llc;
	case HAB_DOMAIN_PACKAGE:
		return places[a].package == places[b].package;
	case HAB_DOMAIN_NODE:
		return places[a].node == places[b].node;
	default:
		return kind == HAB_DOMAIN_GLOBAL;
	}
}

static u32 assign(u32 kind, unsigned int cpu)
{
	unsigned int other;

	if (kind == HAB_DOMAIN_CPU)
		return cpu;
	for_each_possible_cpu(other) {
		if (places[other].ids[kind] != HAB_DOMAIN_NONE && same_domain(kind, cpu, other))
			return places[other].ids[kind];
	}
	return nr_ids[kind]++;
}

void hab_topology_place(unsigned int cpu)
{
	struct place *place = &places[cpu];
	u32 kind;

	if (place->ids[HAB_DOMAIN_CPU] != HAB_DOMAIN_NONE)
		return;
	place->package = topology_physical_package_id(cpu);
	place->die = topology_die_id(cpu);
	place->core = topology_core_id(cpu);
	place->node = cpu_to_node(cpu);
	/* As the kernel's scheduler does. */
	if (!hab_llc_key(&place->llc))
		place->llc = LLC_IS_PACKAGE | (u32)place->package;
	for (kind = 0; kind < HAB_DOMAIN_KINDS; kind++)
		WRITE_ONCE(place->ids[kind], assign(kind, cpu));
}

u32 hab_topology_domain(u32 kind, unsigned int cpu)
{
	/* The kind is from the user, checked when the heap was made. */
	kind = array_index_nospec(kind, HAB_DOMAIN_KINDS);
	return READ_ONCE(places[cpu].ids[kind]);
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

	places = kvcalloc(nr_cpu_ids, sizeof(*places), GFP_KERNEL);
	if (!places)
		return -ENOMEM;
	for (cpu = 0; cpu < nr_cpu_ids; cpu++)
		memset(places[cpu].ids, 0xff, sizeof(places[cpu].ids));
	return 0;
}

void hab_topology_exit(void)
{
	kvfree(places);
	places = NULL;
}
