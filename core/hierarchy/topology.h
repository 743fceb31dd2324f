/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * From the kernel's numbers of packages, dies, clusters, cores, nodes and caches to domains: a
 * dense id for each of them.
 *
 * A CPU keeps its domains, whether or not it is online, and gets them when its numbers are known.
 */
#ifndef HAB_CORE_TOPOLOGY_H
#define HAB_CORE_TOPOLOGY_H

#include "core/os.h"
#include "uapi/hab.h"

/**
 * struct hab_place - a CPU's place
 * @ids: of its domains, HAB_DOMAIN_NONE before hab_topology_add(). Each is valid by itself and read
 *	at any time
 * @package: the kernel's number, negative if it has none
 * @die: likewise, within the package
 * @cluster: likewise, within the die. Where the kernel reads a device tree, cores have the same
 *	numbers in each cluster
 * @core: likewise, within the cluster
 * @node: likewise
 * @llc: key of the last-level cache
 */
struct hab_place {
	u32 ids[HAB_DOMAIN_KINDS];
	int package;
	int die;
	int cluster;
	int core;
	int node;
	u64 llc;
};

/**
 * struct hab_topology - a machine
 * @nr_cpus: CPU numbers are below
 * @places: of the CPUs
 * @nr_ids: of each kind that were given
 * @are_siblings: true if the kernel knows that the CPUs are threads of one core. It may not know of
 *	one that is offline
 */
struct hab_topology {
	u32 nr_cpus;
	struct hab_place *places;
	u32 nr_ids[HAB_DOMAIN_KINDS];
	bool (*are_siblings)(u32 a, u32 b);
};

/*
 * What the kernel knows of siblings is right for unusual processors, but misses those that are
 * offline. The numbers, if there are any, include them.
 */
static inline bool hab_topology_same_core(const struct hab_topology *topology, u32 a, u32 b)
{
	const struct hab_place *place = &topology->places[a], *other = &topology->places[b];

	if (topology->are_siblings(a, b))
		return true;
	return place->package >= 0 && place->package == other->package &&
	       place->die == other->die && place->cluster == other->cluster &&
	       place->core == other->core;
}

static inline bool hab_topology_same(const struct hab_topology *topology, u32 kind, u32 a, u32 b)
{
	const struct hab_place *place = &topology->places[a], *other = &topology->places[b];

	switch (kind) {
	case HAB_DOMAIN_CORE:
		return hab_topology_same_core(topology, a, b);
	case HAB_DOMAIN_LLC:
		return place->llc == other->llc;
	case HAB_DOMAIN_PACKAGE:
		return place->package == other->package;
	case HAB_DOMAIN_NODE:
		return place->node == other->node;
	default:
		return kind == HAB_DOMAIN_GLOBAL;
	}
}

static inline u32 hab_topology_assign(struct hab_topology *topology, u32 kind, u32 cpu)
{
	u32 other;

	if (kind == HAB_DOMAIN_CPU)
		return cpu;
	for (other = 0; other < topology->nr_cpus; other++) {
		if (topology->places[other].ids[kind] != HAB_DOMAIN_NONE &&
		    hab_topology_same(topology, kind, cpu, other))
			return topology->places[other].ids[kind];
	}
	return topology->nr_ids[kind]++;
}

/**
 * hab_topology_add - give a CPU its domains
 * @topology: calls are serialised
 * @cpu: its place has all but @ids
 *
 * The id of domain "cpu" is the CPU's number.
 */
static inline void hab_topology_add(struct hab_topology *topology, u32 cpu)
{
	u32 kind;

	for (kind = 0; kind < HAB_DOMAIN_KINDS; kind++)
		WRITE_ONCE(topology->places[cpu].ids[kind],
			   hab_topology_assign(topology, kind, cpu));
}

#endif /* HAB_CORE_TOPOLOGY_H */
