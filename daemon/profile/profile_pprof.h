/* SPDX-License-Identifier: GPL-2.0-only */
/* Profiles in the format of pprof, gzipped. */
#ifndef HABD_PROFILE_PPROF_H
#define HABD_PROFILE_PPROF_H

#include <stdio.h>

#include "daemon/profile/profile.h"

void profile_write_pprof(const struct profile *profile, FILE *out);

#endif /* HABD_PROFILE_PPROF_H */
