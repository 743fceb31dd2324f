/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Whether a filter of system calls (seccomp) may end the process at a call that the program itself
 * would not make.
 */
#ifndef HAB_LIB_SANDBOX_H
#define HAB_LIB_SANDBOX_H

#include <stdbool.h>

/*
 * The program prepares for a filter, or sets one; @strictly: it limits itself to read() and
 * write(). Only the preload library sees that: without it the next two are always false.
 */
void hab_sandbox_enter(bool strictly);

/* The program has prepared for a filter, or set one. */
bool hab_sandbox_is_entered(void);

/* The program has limited itself to read() and write(): nothing is sampled any more. */
bool hab_sandbox_is_strict(void);

/*
 * true if the process has more than @allowed filters, or if their number is not known. @allowed is
 * that of HAB_FILTERS in the environment: filters that let hab_client_start() make its calls.
 * @may_move: hab_descriptor_move() may be called. Else it opens, reads and closes a file, and makes
 * no other call.
 */
bool hab_sandbox_has_filter(long allowed, bool may_move);

#endif /* HAB_LIB_SANDBOX_H */
