// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Makes a heap's settings of a caller's configuration and the environment.
 *
 * A caller that was built with a later header passes a longer struct. It is accepted if all that
 * this version does not have is zero.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/hierarchy/hierarchy.h"
#include "lib/alloc/config.h"
#include "lib/alloc/levels.h"

#define ALL_FLAGS                                                                  \
	(HAB_HEAP_PROCESS | HAB_HEAP_DEVICE | HAB_HEAP_VERIFY | HAB_HEAP_SMALL_PAGES | \
	 HAB_HEAP_TRIM_THREAD | HAB_HEAP_NO_TRIM)
#define BOTH_TRIMS	  (HAB_HEAP_TRIM_THREAD | HAB_HEAP_NO_TRIM)
#define TLAB_MIN	  256
#define WASTE_DEFAULT	  5
#define WASTE_MOST	  50
#define FIRST_CONFIG_SIZE offsetof(struct hab_heap_config, alignment)

static const char default_levels[] = "clab=512K@cpu";

void hab_heap_config_init(struct hab_heap_config *config)
{
	memset(config, 0, sizeof(*config));
	config->struct_size = sizeof(*config);
	config->arena_bytes = 1ul << 30;
}

/* The caller's struct, of any version, as this version's. */
static int read_config(struct hab_heap_config *config, const struct hab_heap_config *given)
{
	const char *tail = (const char *)given;
	size_t i;

	hab_heap_config_init(config);
	if (!given)
		return 0;
	if (given->struct_size < FIRST_CONFIG_SIZE)
		return -EINVAL;
	for (i = sizeof(*config); i < given->struct_size; i++) {
		if (tail[i])
			return -E2BIG;
	}
	memcpy(config, given, min(given->struct_size, sizeof(*config)));
	return 0;
}

static int parse_tlab(const char *text, struct hab_heap_config *config)
{
	static const char *const modes[] = {
		[HAB_TLABS_NONE] = "none", [HAB_TLABS_GROWING] = "growing", [HAB_TLABS_AUTO] = "auto"
	};
	uint64_t bytes;
	const char *end;
	int mode;

	for (mode = HAB_TLABS_NONE; mode <= HAB_TLABS_AUTO; mode++) {
		if (!strcmp(text, modes[mode])) {
			config->tlab_mode = mode;
			return 0;
		}
	}
	end = hab_size_parse(text, &bytes);
	if (!end || *end || bytes < TLAB_MIN)
		return -EINVAL;
	config->tlab_bytes = bytes;
	return 0;
}

static int choose_tlabs(struct hab_heap_config *config)
{
	const char *text = secure_getenv("HAB_TLAB");

	if (config->tlab_mode)
		return 0;
	if (!config->tlab_bytes) {
		config->tlab_bytes = HAB_TLAB_DEFAULT;
		return text ? parse_tlab(text, config) : 0;
	}
	/* The mode, before 0.3. */
	if (config->tlab_bytes <= HAB_TLABS_AUTO)
		config->tlab_mode = config->tlab_bytes;
	return 0;
}

/* What the program has left open is as the environment says. */
static int apply_defaults(struct hab_heap_config *config)
{
	const char *huge_pages = secure_getenv("HAB_HUGE_PAGES");
	const char *trim = secure_getenv("HAB_TRIM");

	if (!config->levels)
		config->levels = secure_getenv("HAB_LEVELS");
	if (huge_pages && *huge_pages == '0')
		config->flags |= HAB_HEAP_SMALL_PAGES;
	if (trim && !(config->flags & BOTH_TRIMS)) {
		if (!strcmp(trim, "thread"))
			config->flags |= HAB_HEAP_TRIM_THREAD;
		else if (!strcmp(trim, "none"))
			config->flags |= HAB_HEAP_NO_TRIM;
		else
			return -EINVAL;
	}
	return choose_tlabs(config);
}

/* For debugging: whatever the program has set. */
static int apply_overrides(struct hab_heap_config *config)
{
	const char *backend = secure_getenv("HAB_BACKEND");
	const char *verify = secure_getenv("HAB_VERIFY");

	if (verify && *verify == '1')
		config->flags |= HAB_HEAP_VERIFY;
	if (!backend)
		return 0;
	config->flags &= ~(HAB_HEAP_DEVICE | HAB_HEAP_PROCESS);
	if (!strcmp(backend, "device"))
		config->flags |= HAB_HEAP_DEVICE;
	else if (!strcmp(backend, "process"))
		config->flags |= HAB_HEAP_PROCESS;
	else
		return -EINVAL;
	return 0;
}

static int check_flags(const struct hab_heap_config *config)
{
	uint32_t both = HAB_HEAP_PROCESS | HAB_HEAP_DEVICE;

	if ((config->flags & ~ALL_FLAGS) || (config->flags & both) == both ||
	    (config->flags & BOTH_TRIMS) == BOTH_TRIMS || config->waste_percent > WASTE_MOST ||
	    config->tlab_mode > HAB_TLABS_AUTO ||
	    (config->alignment && config->alignment != 8 && config->alignment != 16))
		return -EINVAL;
	return 0;
}

static int set_name(struct hab_settings *settings, const char *name)
{
	size_t i;

	if (!name)
		name = "heap";
	if (strlen(name) >= sizeof(settings->name))
		return -EINVAL;
	for (i = 0; name[i]; i++) {
		if (name[i] < ' ' || name[i] > '~')
			return -EINVAL;
	}
	strcpy(settings->name, name);
	return 0;
}

/*
 * Automatic TLABs need so few refills that a level between them and the heap costs more than it
 * saves (Documentation/results). Other TLABs may be small.
 */
static const char *chosen_levels(const struct hab_heap_config *config)
{
	if (!config->levels)
		return default_levels;
	if (strcmp(config->levels, "auto") != 0)
		return config->levels;
	return config->tlab_mode == HAB_TLABS_AUTO ? "none" : "clab=auto@cpu";
}

/* Bytes that may be unused. If TLABs and buffers are both automatic, each get half of them. */
static uint64_t waste_bytes(const struct hab_settings *settings,
			    const struct hab_heap_config *config)
{
	uint32_t percent = config->waste_percent ? config->waste_percent : WASTE_DEFAULT;
	bool both = config->tlab_mode == HAB_TLABS_AUTO && hab_levels_automatic(settings);

	return settings->arena_bytes / (both ? 200 : 100) * percent;
}

static int set_tlabs(struct hab_settings *settings, const struct hab_heap_config *config,
		     uint64_t waste)
{
	size_t bytes = config->tlab_bytes;

	settings->tlab_mode = config->tlab_mode;
	settings->tlab_bytes = HAB_TLAB_DEFAULT;
	switch (settings->tlab_mode) {
	case HAB_TLABS_FIXED:
		if (bytes < TLAB_MIN || bytes > settings->arena_bytes)
			return -EINVAL;
		settings->tlab_bytes = (bytes + HAB_GRANULE - 1) & ~(HAB_GRANULE - 1);
		break;
	case HAB_TLABS_NONE:
		settings->tlab_bytes = 0;
		break;
	case HAB_TLABS_GROWING:
		settings->tlab_limit = settings->arena_bytes / 16;
		break;
	case HAB_TLABS_AUTO:
		settings->tlab_limit = waste;
		break;
	}
	return 0;
}

int hab_config_read(struct hab_settings *settings, const struct hab_heap_config *given)
{
	struct hab_heap_config config;
	size_t page = sysconf(_SC_PAGESIZE);
	uint64_t waste;
	int err;

	memset(settings, 0, sizeof(*settings));
	err = read_config(&config, given);
	if (!err)
		err = apply_defaults(&config);
	if (!err)
		err = apply_overrides(&config);
	if (!err)
		err = check_flags(&config);
	if (!err)
		err = set_name(settings, config.name);
	if (err)
		return err;
	if (config.arena_bytes > HAB_ARENA_MAX)
		return -ENOMEM;
	settings->flags = config.flags;
	settings->alignment = config.alignment ? config.alignment : 16;
	settings->arena_bytes = (config.arena_bytes + page - 1) & ~(page - 1);
	err = hab_levels_parse(settings, chosen_levels(&config));
	if (err)
		return err;
	waste = waste_bytes(settings, &config);
	hab_levels_size(settings, waste);
	err = hab_hierarchy_check(settings->arena_bytes, settings->nr_levels, settings->levels);
	if (err)
		return err;
	return set_tlabs(settings, &config, waste);
}
