// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The string form of a hierarchy, "plab=32M@package,clab=512K@cpu".
 *
 * Only the form is judged here; whether the sizes make a hierarchy is
 * hab_hierarchy_check()'s business, in one place for both backends.
 */
#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "levels.h"

static const char *const domain_names[HAB_DOMAIN_KINDS] = {
	[HAB_DOMAIN_CPU] = "cpu",   [HAB_DOMAIN_CORE] = "core",
	[HAB_DOMAIN_LLC] = "llc",   [HAB_DOMAIN_PACKAGE] = "package",
	[HAB_DOMAIN_NODE] = "node", [HAB_DOMAIN_GLOBAL] = "global",
};

const char *hab_size_parse(const char *text, uint64_t *bytes)
{
	static const char suffixes[] = "KMGT";
	const char *suffix;
	uint64_t value = 0;

	if (!isdigit((unsigned char)*text))
		return NULL;
	for (; isdigit((unsigned char)*text); text++) {
		if (__builtin_mul_overflow(value, 10, &value) ||
		    __builtin_add_overflow(value, (uint64_t)(*text - '0'), &value))
			return NULL;
	}
	suffix = *text ? strchr(suffixes, toupper((unsigned char)*text)) : NULL;
	if (suffix) {
		unsigned int shift = 10 * (unsigned int)(suffix - suffixes + 1);

		if (value > UINT64_MAX >> shift)
			return NULL;
		value <<= shift;
		text++;
	}
	*bytes = value;
	return text;
}

static const char *skip_name(const char *text)
{
	const char *start = text;

	while (isalnum((unsigned char)*text) || *text == '_' || *text == '-')
		text++;
	return text > start && *text == '=' ? text + 1 : NULL;
}

static const char *parse_domain(const char *text, uint32_t *kind)
{
	size_t len = strcspn(text, ",");
	uint32_t k;

	for (k = 0; k < HAB_DOMAIN_KINDS; k++) {
		if (strlen(domain_names[k]) == len && !memcmp(domain_names[k], text, len)) {
			*kind = k;
			return text + len;
		}
	}
	return NULL;
}

int hab_levels_parse(const char *text, struct hab_level *levels)
{
	int nr = 0;
	uint64_t bytes;

	memset(levels, 0, HAB_MAX_LEVELS * sizeof(*levels));
	for (;;) {
		if (nr == HAB_MAX_LEVELS)
			return -EINVAL;
		text = skip_name(text);
		text = text ? hab_size_parse(text, &bytes) : NULL;
		if (!text || *text != '@')
			return -EINVAL;
		levels[nr].bytes = bytes;
		text = parse_domain(text + 1, &levels[nr].kind);
		if (!text)
			return -EINVAL;
		nr++;
		if (!*text)
			return nr;
		text++;
	}
}
