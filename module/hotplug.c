// SPDX-License-Identifier: GPL-2.0-only
/*
 * CPU hotplug. A CPU that comes online gets its place. With the last CPU of a domain, the domain's
 * buffers are retired in every heap.
 *
 * Buffers are retired when no thread can be in a section on the CPU that goes offline. The
 * callbacks that run on that CPU are too early: the scheduler has begun to push threads away and
 * has not yet waited for the last. So the callback that runs elsewhere, when the CPU is dead,
 * retires the buffers. A thread that was in a section on that CPU was preempted and moved, and
 * restarts the section on another CPU; and no refill can run on the dead CPU. When the CPU comes
 * back its buffers are empty.
 *
 * A word that several CPUs share is retired when all of them are dead, for the same reason: a
 * section commits only on a CPU of its domain, and a refill fills buffers of the CPU it runs on. A
 * process that writes into words at other times harms only its own heap.
 *
 * A heap that joins the list after a CPU went offline needs no retirement: its words are empty
 * until its creator can use it.
 */
#include <linux/cpuhotplug.h>

#include "module/heap.h"
#include "module/hotplug.h"
#include "module/domains.h"

static int place_state, retire_state;

/* On the CPU that comes online, before user threads may run there. */
static int place_cpu(unsigned int cpu)
{
	hab_topology_place(cpu);
	return 0;
}

/* The CPU is dead, or never came up. */
static int retire_cpu(unsigned int cpu)
{
	hab_dev_heaps_retire(cpu);
	return 0;
}

int hab_hotplug_init(void)
{
	/* Also called now, on each CPU that is online. */
	place_state = cpuhp_setup_state(CPUHP_AP_ONLINE_DYN, "hab:place", place_cpu, NULL);
	if (place_state < 0)
		return place_state;
	retire_state =
		cpuhp_setup_state_nocalls(CPUHP_BP_PREPARE_DYN, "hab:retire", NULL, retire_cpu);
	if (retire_state < 0) {
		cpuhp_remove_state_nocalls(place_state);
		return retire_state;
	}
	return 0;
}

void hab_hotplug_exit(void)
{
	/* No heap exists, so a call does nothing. */
	cpuhp_remove_state_nocalls(retire_state);
	cpuhp_remove_state_nocalls(place_state);
}
