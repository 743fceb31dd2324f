/* SPDX-License-Identifier: GPL-2.0-only */
/* The capabilities that habd needs. */
#ifndef HABD_PRIVILEGE_H
#define HABD_PRIVILEGE_H

#include <stdbool.h>

/* False after a sentence that names what is missing. module: its types are to be found, too. */
bool privilege_check(bool module);
/* Keeps what is needed while running, and nothing else. */
void privilege_drop(void);

#endif /* HABD_PRIVILEGE_H */
