/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
#ifndef HAB_LIB_CONFIG_H
#define HAB_LIB_CONFIG_H

#include "lib/alloc/heap.h"

/**
 * hab_config_apply - what kind of heap this will be
 * @heap: zeroed; its sizes, levels, flags and name are filled in
 * @given: the caller's configuration, NULL for the defaults
 *
 * The environment has the last word. Return: 0, -EINVAL, -E2BIG or -ENOMEM as
 * hab_heap_create() has it.
 */
int hab_config_apply(struct hab_heap *heap, const struct hab_heap_config *given);

#endif /* HAB_LIB_CONFIG_H */
