// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The string form of a hierarchy, "plab=32M@package,clab=512K@cpu".
 *
 * Only the form is judged here; whether the sizes make a hierarchy is
 * hab_hierarchy_check()'s business, in one place for both backends. Only sizes that
 * are left to the library are chosen here.
 */
#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "lib/alloc/levels.h"
#include "lib/backend/topology.h"

/* Smaller automatic buffers would not be worth their level. */
#define AUTO_LEAST (64ull << 10)

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

/* A size in digits, or "auto": then the level grows, and its bytes are found later. */
static const char *parse_level_size(const char *text, struct hab_level *level)
{
	if (strncmp(text, "auto@", 5) != 0)
		return hab_size_parse(text, (uint64_t *)&level->bytes);
	level->flags = HAB_LEVEL_GROWING;
	return text + 4;
}

int hab_levels_parse(const char *text, struct hab_level *levels)
{
	int nr = 0;

	memset(levels, 0, HAB_MAX_LEVELS * sizeof(*levels));
	if (!strcmp(text, "none"))
		return 0;
	for (;;) {
		if (nr == HAB_MAX_LEVELS)
			return -EINVAL;
		text = skip_name(text);
		text = text ? parse_level_size(text, &levels[nr]) : NULL;
		if (!text || *text != '@')
			return -EINVAL;
		text = parse_domain(text + 1, &levels[nr].kind);
		if (!text)
			return -EINVAL;
		nr++;
		if (!*text)
			return nr;
		text++;
	}
}

int hab_levels_automatic(const struct hab_level *levels, int nr)
{
	int l, automatic = 0;

	for (l = 0; l < nr; l++)
		automatic += !!(levels[l].flags & HAB_LEVEL_GROWING);
	return automatic;
}

void hab_levels_size(struct hab_level *levels, int nr, uint64_t bytes, uint64_t waste)
{
	int l, automatic = hab_levels_automatic(levels, nr);
	uint64_t most = bytes < HAB_BUFFER_MAX ? bytes : HAB_BUFFER_MAX;
	uint64_t share, size;

	for (l = 0; l < nr; l++) {
		if (levels[l].flags & HAB_LEVEL_GROWING) {
			share = waste / automatic / hab_topology_count(levels[l].kind);
			for (size = AUTO_LEAST; 2 * size <= share && 2 * size <= most; size *= 2)
				;
			levels[l].bytes = size < most ? size : most;
		}
		if (levels[l].bytes < most)
			most = levels[l].bytes;
	}
}
