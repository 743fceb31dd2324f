/* SPDX-License-Identifier: GPL-2.0-only */
/* The formats of a profile. */
#ifndef HABD_FORMATS_H
#define HABD_FORMATS_H

#include <stdio.h>

#include "daemon/profile/profile.h"

struct profile_format {
	const char *name;
	const char *content_type;
	const char *file_name; /* to save it as; NULL: it is shown */
	bool has_events;       /* needs profile_copy_events() */
	void (*write)(const struct profile *profile, FILE *out);
};

/* NULL if there is none of that name. */
const struct profile_format *profile_format(const char *name);
/* "allocated", "in-use" or "both". False: there is no such view. */
bool profile_view_of(const char *name, enum profile_view *view);

#endif /* HABD_FORMATS_H */
