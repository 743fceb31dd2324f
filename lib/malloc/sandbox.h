/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Whether a filter of system calls (seccomp) may end the process at a call that the program itself
 * would not make.
 */
#ifndef HAB_MALLOC_SANDBOX_H
#define HAB_MALLOC_SANDBOX_H

#include <stdbool.h>

/* The program has prepared for a filter, or set one, by prctl(). */
bool hab_sandbox_is_entered(void);

/* The program has left itself read() and write() alone: there are no samples any more. */
bool hab_sandbox_is_strict(void);

/*
 * true if the process has a filter that its parents did not say is there: HAB_FILTERS in the
 * environment has the number of those that allow what a start needs. Also if that is not known.
 */
bool hab_sandbox_has_filter(long allowed);

#endif /* HAB_MALLOC_SANDBOX_H */
