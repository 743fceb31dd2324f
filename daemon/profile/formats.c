// SPDX-License-Identifier: GPL-2.0-only
/* The formats of a profile. */
#include "daemon/profile/formats.h"

#include <string.h>

#include "daemon/profile/flame.h"

static const struct {
	const char *name;
	const char *content_type;
	void (*write)(const struct profile *profile, FILE *out);
} formats[PROFILE_FORMATS] = {
	[PROFILE_PPROF] = { "pprof", "application/octet-stream", profile_write_pprof },
	[PROFILE_FOLDED] = { "folded", "text/plain; charset=utf-8", profile_write_folded },
	[PROFILE_SVG] = { "svg", "image/svg+xml", profile_write_svg },
	[PROFILE_HTML] = { "html", "text/html; charset=utf-8", profile_write_html },
	[PROFILE_JFR] = { "jfr", "application/octet-stream", profile_write_jfr },
};

enum profile_format profile_format(const char *name)
{
	unsigned int i;

	for (i = 0; i < PROFILE_FORMATS; i++)
		if (!strcmp(formats[i].name, name))
			break;
	return i;
}

const char *profile_content_type(enum profile_format format)
{
	return formats[format].content_type;
}

void profile_write(const struct profile *profile, enum profile_format format, FILE *out)
{
	formats[format].write(profile, out);
}
