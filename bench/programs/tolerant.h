/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Tolerant heaps: the paper's own allocation (Listings 1 and 2), for the experiments.
 */
#ifndef HAB_BENCH_TOLERANT_H
#define HAB_BENCH_TOLERANT_H

#include <stdbool.h>

#include "lib/hab.h"

/**
 * tolerant_create - make a tolerant heap
 * @heap: the result, for all functions of lib/hab.h
 * @config: with one level of a fixed size; HAB_HEAP_DEVICE is ignored
 * @sections: the first try of each take is a restartable sequence
 *
 * Its statistics count foreign allocations. It takes no memory back.
 *
 * Return: 0 or a negative errno as hab_heap_create(); -EINVAL also for several levels.
 */
int tolerant_create(struct hab_heap **heap, const struct hab_heap_config *config, bool sections);

#endif /* HAB_BENCH_TOLERANT_H */
