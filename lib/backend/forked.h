/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Children that the library has not seen begin: by _Fork() or clone() no handler of
 * pthread_atfork() runs.
 */
#ifndef HAB_LIB_FORKED_H
#define HAB_LIB_FORKED_H

#include <stdbool.h>

/* Once, before the first heap. Where the kernel cannot wipe memory in children, none is noticed. */
void hab_forked_init(void);

/* true in a child, until hab_forked_seen(). One load. */
bool hab_forked(void);

void hab_forked_seen(void);

#endif /* HAB_LIB_FORKED_H */
