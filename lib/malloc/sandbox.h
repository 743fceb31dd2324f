/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Whether a filter of system calls (seccomp) may end the process at a call that the program itself
 * would not make.
 */
#ifndef HAB_MALLOC_SANDBOX_H
#define HAB_MALLOC_SANDBOX_H

#include <stdbool.h>

/* The program has prepared for a filter, or set one, by prctl() or syscall(). */
bool hab_sandbox_is_entered(void);

/* The program has limited itself to read() and write(): nothing is sampled any more. */
bool hab_sandbox_is_strict(void);

/*
 * true if the process has more than @allowed filters, or if their number is not known. @allowed is
 * that of HAB_FILTERS in the environment: filters that let hab_client_start() make its calls.
 */
bool hab_sandbox_has_filter(long allowed);

#endif /* HAB_MALLOC_SANDBOX_H */
