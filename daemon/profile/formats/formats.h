/* SPDX-License-Identifier: GPL-2.0-only */
/* The formats of a profile, by their names and suffixes. */
#ifndef HABD_FORMATS_H
#define HABD_FORMATS_H

#include "daemon/profile/formats/table.h"

struct profile_format {
	const char *name;
	const char *suffix;
	const char *content_type;
	const char *next;      /* the command that shows such a file */
	const char *file_name; /* to save it as; NULL: a browser shows it */
	const char *views[2];  /* without --live, and with it */
	bool has_events;       /* needs profile_copy_events() */
	void (*write)(const struct profile *profile, FILE *out);
};

/* NULL if there is none of that name. */
const struct profile_format *profile_format(const char *name);
/* NULL after a sentence: the suffix of the file is of no format. */
const struct profile_format *profile_format_of(const char *path);
/* "allocated", "in-use" or "both". False: there is no such view. */
bool profile_view_of(const char *name, enum profile_view *view);

#endif /* HABD_FORMATS_H */
