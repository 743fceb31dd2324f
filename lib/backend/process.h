/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
#ifndef HAB_LIB_PROCESS_H
#define HAB_LIB_PROCESS_H

#include "lib/heap.h"

extern const struct hab_backend hab_process_backend;

/* true if the backend can empty the buffers of other CPUs when the heap is full. */
bool hab_process_collects(const struct hab_heap *heap);

#endif /* HAB_LIB_PROCESS_H */
