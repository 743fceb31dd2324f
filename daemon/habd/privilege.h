/* SPDX-License-Identifier: GPL-2.0-only */
/* The capabilities that habd needs. */
#ifndef HABD_PRIVILEGE_H
#define HABD_PRIVILEGE_H

#include <stdbool.h>

/* False after a sentence that names the missing ones: those to follow the module. */
bool privilege_check(void);
/*
 * Drops all capabilities that are not needed while habd runs. @opens_events: CAP_SYS_ADMIN stays
 * permitted, but has no effect until a thread raises it.
 */
void privilege_drop(bool opens_events);

#endif /* HABD_PRIVILEGE_H */
