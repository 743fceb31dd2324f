/* SPDX-License-Identifier: GPL-2.0-only */
/* Profiles as folded stacks and as flame graphs. */
#ifndef HABD_FLAME_H
#define HABD_FLAME_H

#include <stdio.h>

#include "daemon/profile/profile.h"

/* Writes the name of a function as in folded stacks. */
void put_folded(FILE *out, const char *name);
void profile_write_folded(const struct profile *profile, FILE *out);
void profile_write_svg(const struct profile *profile, FILE *out);
void profile_write_html(const struct profile *profile, FILE *out);

#endif /* HABD_FLAME_H */
