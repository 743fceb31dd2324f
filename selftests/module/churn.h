/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * For tests that move threads: heaps on each backend, with both kinds of words.
 */
#ifndef HAB_SELFTESTS_CHURN_H
#define HAB_SELFTESTS_CHURN_H

#include <sched.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "lib/heap.h"

#define MiB (1ul << 20)

static inline int pin_thread(pid_t thread, int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	return sched_setaffinity(thread, sizeof(set), &set);
}

/* CPUs that this process may use, at most @most. */
static inline int usable_cpus(int *cpus, int most)
{
	cpu_set_t set;
	int cpu, nr = 0;

	sched_getaffinity(0, sizeof(set), &set);
	for (cpu = 0; cpu < CPU_SETSIZE && nr < most; cpu++) {
		if (CPU_ISSET(cpu, &set))
			cpus[nr++] = cpu;
	}
	return nr;
}

static inline struct hab_heap *make_heap(const char *levels, uint32_t flags, size_t arena)
{
	struct hab_heap_config config;
	struct hab_heap *heap;

	hab_heap_config_init(&config);
	config.arena_bytes = arena;
	config.levels = levels;
	config.flags = flags;
	config.name = "churn";
	return hab_heap_create(&heap, &config) ? NULL : heap;
}

static inline uint64_t accounted(const struct hab_heap_stats *stats)
{
	uint64_t sum = stats->chunk_bytes - stats->returned_bytes;
	uint32_t l;

	for (l = 0; l <= stats->nr_levels; l++)
		sum += stats->levels[l].waste_bytes + stats->levels[l].free_bytes;
	return sum;
}

FIXTURE(churn)
{
	bool fit;
};

FIXTURE_VARIANT(churn)
{
	const char *levels;
	uint32_t flags;
};

#define PROCESS (HAB_HEAP_PROCESS | HAB_HEAP_VERIFY)
#define DEVICE	(HAB_HEAP_DEVICE | HAB_HEAP_VERIFY)

FIXTURE_VARIANT_ADD(churn, process_clab){ "clab=64K@cpu", PROCESS };
FIXTURE_VARIANT_ADD(churn, process_plab){ "plab=256K@global", PROCESS };
FIXTURE_VARIANT_ADD(churn, device_clab){ "clab=64K@cpu", DEVICE };
FIXTURE_VARIANT_ADD(churn, device_plab){ "plab=256K@global", DEVICE };
FIXTURE_VARIANT_ADD(churn, device_plain_clab){ "clab=64K@cpu", HAB_HEAP_DEVICE };
FIXTURE_VARIANT_ADD(churn, device_plain_plab){ "plab=256K@package", HAB_HEAP_DEVICE };

static inline const char *unfit(uint32_t flags)
{
	int cpus[2];

	if ((flags & HAB_HEAP_DEVICE) && access("/dev/hab", F_OK))
		return "no /dev/hab: module hab is not loaded here";
	if (usable_cpus(cpus, 2) < 2)
		return "only one CPU here";
	return NULL;
}

FIXTURE_SETUP(churn)
{
	if (unfit(variant->flags))
		SKIP(return, "%s", unfit(variant->flags));
	self->fit = true;
}

#endif /* HAB_SELFTESTS_CHURN_H */
