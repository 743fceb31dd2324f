// SPDX-License-Identifier: GPL-2.0-only
/*
 * CPU hotplug. A CPU that comes is given its place; with the last CPU of a domain its
 * buffers go, in every heap, and what is left in them joins the heap's rests.
 *
 * The hard case is a user thread that is in the middle of a section on the CPU that
 * goes. The callbacks of the way down that run on that CPU are too early to give its
 * word up for good: they come when the scheduler has begun to push threads away, and
 * before it has waited for the last. So the buffers are given up by the callback that
 * runs elsewhere once the CPU is dead. Whoever was in a section there was preempted and
 * then moved, and starts the section again where he goes on; nobody is there to fill
 * the buffer again. When the CPU comes back it finds it empty, as at the start.
 *
 * A word that several CPUs share is given up when all of them are dead, for the same
 * reason. Nobody else has a way to it: a section commits only on a CPU of its domain,
 * and a refill fills the buffers of the CPU it runs on. A process that writes into words
 * at other times harms its own heap only, as always.
 *
 * A heap that joins the list late misses nothing: its words are empty until its user has
 * it.
 */
#include <linux/cpuhotplug.h>

#include "module/heap.h"
#include "module/hotplug.h"
#include "module/topology.h"

static int place_state, retire_state;

/* On the CPU that comes, before user threads may run there. */
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
	/* Called at once on each CPU that is online, too. */
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
	/* There is no heap left that a call could do anything to. */
	cpuhp_remove_state_nocalls(retire_state);
	cpuhp_remove_state_nocalls(place_state);
}
