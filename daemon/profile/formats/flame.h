/* SPDX-License-Identifier: GPL-2.0-only */
/* Names as in folded stacks. */
#ifndef HABD_FLAME_H
#define HABD_FLAME_H

#include <stdio.h>

#include "daemon/profile/profile.h"

/* Writes the name of a function as in folded stacks. */
void put_folded(FILE *out, const char *name);

#endif /* HABD_FLAME_H */
