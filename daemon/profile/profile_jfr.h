/* SPDX-License-Identifier: GPL-2.0-only */
/* Profiles as recordings of the JDK's flight recorder. */
#ifndef HABD_PROFILE_JFR_H
#define HABD_PROFILE_JFR_H

#include <stdio.h>

#include "daemon/profile/profile.h"

/* out: a stream that can seek. */
void profile_write_jfr(const struct profile *profile, FILE *out);

#endif /* HABD_PROFILE_JFR_H */
