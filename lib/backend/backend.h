/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
#ifndef HAB_LIB_BACKEND_H
#define HAB_LIB_BACKEND_H

#include "lib/heap.h"

/**
 * hab_backend_open - open the backend of a heap
 * @heap: with its settings
 * @backend: NULL: chosen by the heap's flags and by what the machine offers
 *
 * Return: 0, with the heap's backend and reason set; or a negative errno.
 */
int hab_backend_open(struct hab_heap *heap, const struct hab_backend *backend);

/*
 * Opens a backend again in a forked child, after the backend's leave(). If none can be opened the
 * heap gets one without memory, so every take fails with ENOMEM.
 */
void hab_backend_reopen(struct hab_heap *heap);

#endif /* HAB_LIB_BACKEND_H */
