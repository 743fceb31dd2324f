/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Whether a stopped thread holds no lock that pthread_create() takes: of the allocator, the dynamic
 * linker, or the C library.
 */
#ifndef HABRUN_SAFE_POINT_H
#define HABRUN_SAFE_POINT_H

#include "daemon/attach/machine.h"
#include "daemon/attach/target.h"

struct safe_point;

/* Reads what is needed to unwind, from the memory of the process. NULL after a sentence. */
struct safe_point *safe_point_new(struct target *target);
void safe_point_free(struct safe_point *safe_point);

/* Takes some 100 us. */
bool safe_point_is_here(struct safe_point *safe_point, pid_t thread,
			const struct user_regs_struct *registers);

#endif /* HABRUN_SAFE_POINT_H */
