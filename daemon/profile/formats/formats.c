// SPDX-License-Identifier: GPL-2.0-only
#include "daemon/profile/formats/formats.h"

#include <string.h>

#include "daemon/profile/formats/flame.h"

static const struct profile_format formats[] = {
	{ "pprof", "application/octet-stream", "allocs.pb.gz", false, profile_write_pprof },
	{ "jfr", "application/octet-stream", "allocs.jfr", true, profile_write_jfr },
	{ "folded", "text/plain; charset=utf-8", NULL, false, profile_write_folded },
	{ "svg", "image/svg+xml", NULL, false, profile_write_svg },
	{ "html", "text/html; charset=utf-8", NULL, false, profile_write_html },
};

const struct profile_format *profile_format(const char *name)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(formats); i++)
		if (!strcmp(formats[i].name, name))
			return &formats[i];
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
