/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
#ifndef HAB_LIB_FORK_H
#define HAB_LIB_FORK_H

/* Makes fork() keep heaps usable in the child; 0 or a negative errno. Idempotent. */
int hab_fork_prepare_handlers(void);

#endif /* HAB_LIB_FORK_H */
