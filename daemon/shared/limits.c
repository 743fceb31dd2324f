// SPDX-License-Identifier: GPL-2.0-only
#include "daemon/shared/limits.h"

#define FEWER_TRIES "see which programs connect in a loop"
#define UNNAMED	    "functions of that user's programs have no names: run fewer at once"

const struct limit limits[LIMITS] = {
	[LIMITED_CLIENTS] = { "connections", "", 32 },
	[LIMITED_TCP_CLIENTS] = { "TCP connections", "", 32 },
	[LIMITED_STRANGERS] = { "connections of others", "", 8 },
	[LIMITED_VIEWERS] = { "connections of the viewer", "", 8 },
	[LIMITED_REQUEST_SECONDS] = { "late requests", " seconds", 10 },
	[LIMITED_RECORDINGS] = { "recordings", "", 16, "stop one first" },
	/* The viewer has its recordings here, and profiles of the next seconds. */
	[LIMITED_VIEWER_RECORDINGS] = { "recordings of the viewer", "", 64, "stop one first" },
	[LIMITED_WAITING] = { "profiles of the next seconds", "", 16,
			      "try again when one is done" },
	[LIMITED_ANSWERS] = { "answers that their clients do not read", " bytes", 32 << 20,
			      "try again in a minute" },
	/* Twenty times what a full table of 65536 stacks takes. */
	[LIMITED_MARKS] = { "recordings of so many stacks", " bytes", 80 << 20,
			    "stop one first, or start habd with a lower --stacks" },
	[LIMITED_OWNERS] = { "connections of unknown owners", " owners", 4096, FEWER_TRIES, true,
			     true },
	[LIMITED_UNTAKEN] = { "connections that no collector took", "", LIMIT_UNTAKEN },
	[LIMITED_HELLOS] = { "connections without a channel", "", 64, FEWER_TRIES, true },
	[LIMITED_CHANNELS] = { "channels", "", LIMIT_CHANNELS,
			       "run fewer programs of that owner with the preload library or libhab",
			       true },
	[LIMITED_BINARIES] = { "programs and libraries", "", LIMIT_BINARIES,
			       "restart habd, so that new ones have names", true },
	[LIMITED_NAMES] = { "names of interpreted functions", "", LIMIT_NAMES,
			    "start habd with a lower --stacks", true },
	[LIMITED_SENT_NAMES] = { "names that programs have sent", "", 1 << 20, UNNAMED, true },
	[LIMITED_MAPPINGS] = { "lists of mappings", " mappings", 1 << 17, UNNAMED, true },
	[LIMITED_HEAPS] = { "heaps", " by default", 1024,
			    "raise max_heaps_per_user in /sys/module/hab/parameters", true },
	[LIMITED_PROCESSES] = { "processes that refilled", "", 16384,
				"the totals of the machine are exact, those of processes are not",
				true, true },
};

struct limit_counts limits_own;

bool limits_take(enum limited resource, uint64_t amount)
{
	uint64_t *used = &limits_own.used[resource];

	if (__atomic_fetch_add(used, amount, __ATOMIC_RELAXED) < limits[resource].most)
		return true;
	limits_give_back(resource, amount);
	limits_refuse(resource);
	return false;
}

void limits_add(enum limited resource, uint64_t amount)
{
	__atomic_fetch_add(&limits_own.used[resource], amount, __ATOMIC_RELAXED);
}

void limits_give_back(enum limited resource, uint64_t amount)
{
	__atomic_fetch_sub(&limits_own.used[resource], amount, __ATOMIC_RELAXED);
}

void limits_refuse(enum limited resource)
{
	__atomic_fetch_add(&limits_own.refused[resource], 1, __ATOMIC_RELAXED);
}
