/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
#ifndef HAB_LIB_ALLOC_HEAP_H
#define HAB_LIB_ALLOC_HEAP_H

#include "lib/heap.h"

/**
 * hab_heap_create_on - hab_heap_create() with a backend that the caller chooses
 * @heap: the result
 * @config: as hab_heap_create()
 * @backend: NULL: the library chooses
 *
 * For programs that are linked with libhab.a; the shared library does not export it.
 *
 * Return: as hab_heap_create(), or what @backend's open gives.
 */
int hab_heap_create_on(struct hab_heap **heap, const struct hab_heap_config *config,
		       const struct hab_backend *backend);

#endif /* HAB_LIB_ALLOC_HEAP_H */
