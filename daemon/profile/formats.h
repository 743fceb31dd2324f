/* SPDX-License-Identifier: GPL-2.0-only */
/* The formats of a profile. */
#ifndef HABD_FORMATS_H
#define HABD_FORMATS_H

#include <stdio.h>

#include "daemon/profile/profile.h"

enum profile_format {
	PROFILE_PPROF,
	PROFILE_FOLDED,
	PROFILE_SVG,
	PROFILE_HTML,
	PROFILE_JFR,
	PROFILE_FORMATS,
};

/* PROFILE_FORMATS if there is none of that name. */
enum profile_format profile_format(const char *name);
const char *profile_content_type(enum profile_format format);
void profile_write(const struct profile *profile, enum profile_format format, FILE *out);

#endif /* HABD_FORMATS_H */
