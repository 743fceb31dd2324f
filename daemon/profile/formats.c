// SPDX-License-Identifier: GPL-2.0-only
/* The formats of a profile. */
#include "daemon/profile/formats.h"

#include <string.h>

#include "daemon/profile/flame.h"
#include "daemon/profile/profile_jfr.h"
#include "daemon/profile/profile_pprof.h"

static const struct {
	const char *name;
	const char *content_type;
} formats[PROFILE_FORMATS] = {
	[PROFILE_PPROF] = { "pprof", "application/octet-stream" },
	[PROFILE_FOLDED] = { "folded", "text/plain; charset=utf-8" },
	[PROFILE_SVG] = { "svg", "image/svg+xml" },
	[PROFILE_HTML] = { "html", "text/html; charset=utf-8" },
	[PROFILE_JFR] = { "jfr", "application/octet-stream" },
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

bool profile_write(const struct profile *profile, enum profile_format format, FILE *out)
{
	switch (format) {
	case PROFILE_PPROF:
		return profile_write_pprof(profile, out);
	case PROFILE_FOLDED:
		profile_write_folded(profile, out);
		break;
	case PROFILE_SVG:
		profile_write_svg(profile, out);
		break;
	case PROFILE_HTML:
		profile_write_html(profile, out);
		break;
	case PROFILE_JFR:
		profile_write_jfr(profile, out);
		break;
	case PROFILE_FORMATS:
		return false;
	}
	return true;
}
