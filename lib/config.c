// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * From a caller's configuration and the environment to a heap's sizes.
 *
 * The hard case is versions: a caller that was built against a later header hands in
 * a longer struct, which is fine as long as it asks for nothing unknown.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../core/hierarchy.h"
#include "chunk.h"
#include "config.h"
#include "levels.h"
#include "sampler.h"

#define ALL_FLAGS	  (HAB_HEAP_PROCESS | HAB_HEAP_DEVICE | HAB_HEAP_VERIFY)
#define TLAB_MIN	  256
#define FIRST_CONFIG_SIZE sizeof(struct hab_heap_config)

static const char default_levels[] = "clab=512K@cpu";

void hab_heap_config_init(struct hab_heap_config *config)
{
	memset(config, 0, sizeof(*config));
	config->struct_size = sizeof(*config);
	config->arena_bytes = 1ul << 30;
	config->tlab_bytes = 32 << 10;
}

/* The caller's struct, of whatever version, as this version's. */
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
	memcpy(config, given, sizeof(*config));
	return 0;
}

static int apply_environment(struct hab_heap_config *config)
{
	const char *levels = getenv("HAB_LEVELS");
	const char *tlab = getenv("HAB_TLAB");
	const char *backend = getenv("HAB_BACKEND");
	const char *verify = getenv("HAB_VERIFY");
	const char *end;
	uint64_t bytes;

	if (levels)
		config->levels = levels;
	if (tlab) {
		end = hab_size_parse(tlab, &bytes);
		if (!end || *end)
			return -EINVAL;
		config->tlab_bytes = bytes;
	}
	if (backend) {
		config->flags &= ~(HAB_HEAP_DEVICE | HAB_HEAP_PROCESS);
		if (!strcmp(backend, "device"))
			config->flags |= HAB_HEAP_DEVICE;
		else if (!strcmp(backend, "process"))
			config->flags |= HAB_HEAP_PROCESS;
		else
			return -EINVAL;
	}
	if (verify && *verify == '1')
		config->flags |= HAB_HEAP_VERIFY;
	return 0;
}

static int check_flags(const struct hab_heap_config *config)
{
	uint32_t both = HAB_HEAP_PROCESS | HAB_HEAP_DEVICE;

	if ((config->flags & ~ALL_FLAGS) || (config->flags & both) == both || config->reserved)
		return -EINVAL;
	return 0;
}

static int set_name(struct hab_heap *heap, const char *name)
{
	size_t i;

	if (!name)
		name = "heap";
	if (strlen(name) >= sizeof(heap->name))
		return -EINVAL;
	for (i = 0; name[i]; i++) {
		if (name[i] < ' ' || name[i] > '~')
			return -EINVAL;
	}
	strcpy(heap->name, name);
	return 0;
}

int hab_config_apply(struct hab_heap *heap, const struct hab_heap_config *given)
{
	struct hab_heap_config config;
	size_t page = sysconf(_SC_PAGESIZE);
	int err;

	err = read_config(&config, given);
	if (!err)
		err = apply_environment(&config);
	if (!err)
		err = check_flags(&config);
	if (!err)
		err = set_name(heap, config.name);
	if (err)
		return err;
	heap->nr_levels =
		hab_levels_parse(config.levels ? config.levels : default_levels, heap->levels);
	if (heap->nr_levels < 0)
		return heap->nr_levels;
	if (config.arena_bytes > HAB_ARENA_MAX)
		return -ENOMEM;
	heap->arena_bytes = (config.arena_bytes + page - 1) & ~(page - 1);
	err = hab_hierarchy_check(heap->arena_bytes, heap->nr_levels, heap->levels);
	if (err)
		return err;
	if (config.tlab_bytes < TLAB_MIN ||
	    config.tlab_bytes > heap->levels[heap->nr_levels - 1].bytes)
		return -EINVAL;
	heap->tlab_bytes = (config.tlab_bytes + HAB_GRANULE - 1) & ~(HAB_GRANULE - 1);
	heap->flags = config.flags;
	heap->verify = config.flags & HAB_HEAP_VERIFY;
	heap->shared = heap->levels[heap->nr_levels - 1].kind != HAB_DOMAIN_CPU;
	heap->take = heap->shared ? hab_chunk_take_shared : hab_chunk_take_own;
	heap->sampling_interval = HAB_SAMPLING_INTERVAL_DEFAULT;
	return 0;
}
