// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The string form of a hierarchy, "plab=32M@package,clab=512K@cpu".
 *
 * Only the form is checked here; hab_hierarchy_check() checks the sizes, for both backends. Only
 * the sizes of automatic levels are chosen here.
 */
#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "lib/alloc/levels.h"
#include "lib/backend/cpu_domains.h"

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

/* Copies the name and returns what follows "NAME=", or NULL. */
static const char *parse_name(const char *text, char *name)
{
	size_t length = 0;

	while (isalnum((unsigned char)text[length]) || text[length] == '_' || text[length] == '-')
		length++;
	if (!length || length >= HAB_LEVEL_NAME_LEN || text[length] != '=')
		return NULL;
	memcpy(name, text, length);
	return text + length + 1;
}

/* A concurrency id is a CPU number to the books. */
static const char *parse_domain(const char *text, uint32_t *kind, bool *cids)
{
	size_t length = strcspn(text, ",");
	uint32_t k;

	if (length == 3 && !memcmp("cid", text, length)) {
		*kind = HAB_DOMAIN_CPU;
		*cids = true;
		return text + length;
	}
	for (k = 0; k < HAB_DOMAIN_KINDS; k++) {
		if (strlen(domain_names[k]) == length && !memcmp(domain_names[k], text, length)) {
			*kind = k;
			return text + length;
		}
	}
	return NULL;
}

static const char *parse_level_size(const char *text, struct hab_level *level)
{
	if (strncmp(text, "auto@", 5) != 0)
		return hab_size_parse(text, (uint64_t *)&level->bytes);
	level->flags = HAB_LEVEL_GROWING;
	return text + 4;
}

/* No level at all: one buffer for all CPUs, as large as can be, serves as the heap. */
static void set_global_level(struct hab_settings *settings)
{
	size_t arena = settings->arena_bytes;

	settings->levels[0].bytes = arena < HAB_BUFFER_MAX ? arena : HAB_BUFFER_MAX;
	settings->levels[0].kind = HAB_DOMAIN_GLOBAL;
	strcpy(settings->level_names[0], "global");
	settings->nr_levels = 1;
}

int hab_levels_parse(struct hab_settings *settings, const char *text)
{
	int nr = 0;

	if (!strcmp(text, "none")) {
		set_global_level(settings);
		return 0;
	}
	do {
		struct hab_level *level = &settings->levels[nr];

		/* A thread with a cid has no CPU, so there is no level below. */
		if (nr == HAB_MAX_LEVELS || settings->cids)
			return -EINVAL;
		text = parse_name(text, settings->level_names[nr]);
		text = text ? parse_level_size(text, level) : NULL;
		if (!text || *text != '@')
			return -EINVAL;
		text = parse_domain(text + 1, &level->kind, &settings->cids);
		if (!text)
			return -EINVAL;
		nr++;
	} while (*text++);
	settings->nr_levels = nr;
	return 0;
}

int hab_levels_automatic(const struct hab_settings *settings)
{
	int l, automatic = 0;

	for (l = 0; l < settings->nr_levels; l++)
		automatic += !!(settings->levels[l].flags & HAB_LEVEL_GROWING);
	return automatic;
}

void hab_levels_size(struct hab_settings *settings, uint64_t waste)
{
	size_t arena = settings->arena_bytes;
	uint64_t most = arena < HAB_BUFFER_MAX ? arena : HAB_BUFFER_MAX;
	int l, automatic = hab_levels_automatic(settings);
	uint64_t share, size;

	for (l = 0; l < settings->nr_levels; l++) {
		struct hab_level *level = &settings->levels[l];

		if (level->flags & HAB_LEVEL_GROWING) {
			share = waste / automatic / hab_topology_count(level->kind);
			for (size = AUTO_LEAST; 2 * size <= share && 2 * size <= most; size *= 2)
				;
			level->bytes = size < most ? size : most;
		}
		if (level->bytes < most)
			most = level->bytes;
	}
}
