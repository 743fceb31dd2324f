/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
#ifndef HAB_LIB_STACK_H
#define HAB_LIB_STACK_H

#include "lib/alloc/thread.h"

/**
 * hab_stack_send - send the calling thread's stack for the sample just kept
 * @thread: its record; frames below @thread->entry are the library's own and left out
 * @sample_id: as the refill gave it
 */
void hab_stack_send(struct hab_thread *thread, uint64_t sample_id);

#endif /* HAB_LIB_STACK_H */
