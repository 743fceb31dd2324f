// SPDX-License-Identifier: GPL-2.0-only
/*
 * The map of the machine: a dense id for each core, package, node.
 *
 * The hard case is a CPU that is not online yet: the kernel does not know its
 * place. It gets none until it is first asked for while online, and then keeps
 * it, because words of running heaps are found by it.
 */
#include <linux/cpumask.h>
#include <linux/nospec.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/topology.h>

#include "../uapi/hab.h"
#include "topology.h"

static DEFINE_RAW_SPINLOCK(lock);  /* innermost */
static u32 *ids[HAB_DOMAIN_KINDS]; /* [kind][cpu] */
static u32 nr_ids[HAB_DOMAIN_KINDS];

bool hab_topology_knows(u32 kind)
{
	return kind < HAB_DOMAIN_KINDS && kind != HAB_DOMAIN_LLC;
}

static bool same_domain(u32 kind, unsigned int a, unsigned int b)
{
	switch (kind) {
	case HAB_DOMAIN_CORE:
		return cpumask_test_cpu(a, topology_sibling_cpumask(b));
	case HAB_DOMAIN_PACKAGE:
		return topology_physical_package_id(a) == topology_physical_package_id(b);
	case HAB_DOMAIN_NODE:
		return cpu_to_node(a) == cpu_to_node(b);
	case HAB_DOMAIN_GLOBAL:
		return true;
	default:
		return a == b;
	}
}

static u32 assign_locked(u32 kind, unsigned int cpu)
{
	unsigned int other;

	lockdep_assert_held(&lock);
	if (kind == HAB_DOMAIN_CPU)
		return cpu;
	for_each_online_cpu(other) {
		if (ids[kind][other] != HAB_DOMAIN_NONE && same_domain(kind, cpu, other))
			return ids[kind][other];
	}
	return nr_ids[kind]++;
}

u32 hab_topology_domain(u32 kind, unsigned int cpu)
{
	unsigned long flags;
	u32 id;

	/* The kind is the user's choice, checked when the heap was made. */
	kind = array_index_nospec(kind, HAB_DOMAIN_KINDS);
	raw_spin_lock_irqsave(&lock, flags);
	id = ids[kind][cpu];
	if (id == HAB_DOMAIN_NONE && cpu_online(cpu)) {
		id = assign_locked(kind, cpu);
		ids[kind][cpu] = id;
	}
	raw_spin_unlock_irqrestore(&lock, flags);
	return id;
}

int hab_topology_init(void)
{
	u32 kind;

	for (kind = 0; kind < HAB_DOMAIN_KINDS; kind++) {
		ids[kind] = kcalloc(nr_cpu_ids, sizeof(u32), GFP_KERNEL);
		if (!ids[kind]) {
			hab_topology_exit();
			return -ENOMEM;
		}
		memset(ids[kind], 0xff, nr_cpu_ids * sizeof(u32));
	}
	return 0;
}

void hab_topology_exit(void)
{
	u32 kind;

	for (kind = 0; kind < HAB_DOMAIN_KINDS; kind++) {
		kfree(ids[kind]);
		ids[kind] = NULL;
	}
}
