/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef HAB_TEST_ACCOUNTED_H
#define HAB_TEST_ACCOUNTED_H

#include "lib/hab.h"

/* The bytes of the arena that the statistics account for, less chunks of open regions. */
static inline uint64_t accounted(struct hab_heap *heap)
{
	struct hab_heap_stats stats;
	uint64_t sum = 0;
	uint32_t l;

	if (hab_heap_stats(heap, &stats))
		return 0;
	for (l = 0; l <= stats.nr_levels; l++)
		sum += stats.levels[l].free_bytes + stats.levels[l].waste_bytes +
		       stats.free_chunk_bytes[l];
	return sum;
}

#endif /* HAB_TEST_ACCOUNTED_H */
