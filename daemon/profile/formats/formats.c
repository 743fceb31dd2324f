// SPDX-License-Identifier: GPL-2.0-only
#include "daemon/profile/formats/formats.h"

#include <string.h>

#define SHOWN(suffix) NULL
#define SAVED(suffix) "allocs" suffix
#define ROW(name, suffix, about, type, next, where, view, live, events, write) \
	{ name, suffix, type, next, where(suffix), { view, live }, events, write },

static const struct profile_format formats[] = { PROFILE_FORMATS(ROW) };

const struct profile_format *profile_format(const char *name)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(formats); i++)
		if (!strcmp(formats[i].name, name))
			return &formats[i];
	return NULL;
}

const struct profile_format *profile_format_of(const char *path)
{
	size_t length = strlen(path), end;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(formats); i++) {
		end = strlen(formats[i].suffix);
		if (length > end && path[length - end - 1] != '/' &&
		    !strcmp(path + length - end, formats[i].suffix))
			return &formats[i];
	}
	say("%s: the suffix says the format: it must be one of" PROFILE_FORMATS_SUFFIXES, path);
	return NULL;
}

bool profile_view_of(const char *name, enum profile_view *view)
{
	static const char *const names[] = {
		[PROFILE_ALLOCATED] = "allocated", [PROFILE_IN_USE] = "in-use", [PROFILE_BOTH] = "both"
	};

	for (*view = 0; *view < ARRAY_SIZE(names); ++*view)
		if (!strcmp(names[*view], name))
			return true;
	return false;
}
