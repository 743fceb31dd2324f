/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
#ifndef HAB_LIB_STACK_H
#define HAB_LIB_STACK_H

#include "heap.h"

/* Unwinds the calling thread and sends its stack for the sample just kept. */
void hab_stack_send(struct hab_heap *heap, uint64_t sample_id);

#endif /* HAB_LIB_STACK_H */
