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

#include "core/hierarchy/hierarchy.h"
#include "lib/alloc/chunk.h"
#include "lib/alloc/config.h"
#include "lib/alloc/levels.h"
#include "lib/telemetry/sampler.h"

#define ALL_FLAGS                                                                   \
	(HAB_HEAP_PROCESS | HAB_HEAP_DEVICE | HAB_HEAP_VERIFY | HAB_HEAP_TOLERANT | \
	 HAB_HEAP_TOLERANT_RSEQ)
#define TLAB_MIN	  256
#define TLAB_DEFAULT	  (32 << 10)
#define WASTE_DEFAULT	  5
#define WASTE_MOST	  50
#define FIRST_CONFIG_SIZE sizeof(struct hab_heap_config)

static const char default_levels[] = "clab=512K@cpu";

void hab_heap_config_init(struct hab_heap_config *config)
{
	memset(config, 0, sizeof(*config));
	config->struct_size = sizeof(*config);
	config->arena_bytes = 1ul << 30;
	config->tlab_bytes = TLAB_DEFAULT;
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

static int parse_tlab(const char *text, size_t *tlab_bytes)
{
	uint64_t bytes;
	const char *end;

	if (!strcmp(text, "none"))
		*tlab_bytes = HAB_TLAB_NONE;
	else if (!strcmp(text, "growing"))
		*tlab_bytes = HAB_TLAB_GROWING;
	else if (!strcmp(text, "auto"))
		*tlab_bytes = HAB_TLAB_AUTO;
	else {
		end = hab_size_parse(text, &bytes);
		if (!end || *end || bytes < TLAB_MIN)
			return -EINVAL;
		*tlab_bytes = bytes;
	}
	return 0;
}

static int apply_environment(struct hab_heap_config *config)
{
	const char *levels = getenv("HAB_LEVELS");
	const char *tlab = getenv("HAB_TLAB");
	const char *backend = getenv("HAB_BACKEND");
	const char *verify = getenv("HAB_VERIFY");

	if (levels)
		config->levels = levels;
	if (tlab && parse_tlab(tlab, &config->tlab_bytes))
		return -EINVAL;
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
	uint32_t tolerant = HAB_HEAP_TOLERANT | HAB_HEAP_TOLERANT_RSEQ;

	if ((config->flags & ~ALL_FLAGS) || (config->flags & both) == both ||
	    config->waste_percent > WASTE_MOST)
		return -EINVAL;
	/* The tolerant ways are of the process, and not both at once. */
	if ((config->flags & tolerant) == tolerant ||
	    ((config->flags & tolerant) && (config->flags & HAB_HEAP_DEVICE)))
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

/*
 * TLABs that follow the rate of their refills have so few of them that a level between them and
 * the heap costs more than it saves (Documentation/results); any others may be small.
 */
static const char *chosen_levels(const struct hab_heap_config *config)
{
	if (!config->levels)
		return default_levels;
	if (strcmp(config->levels, "auto") != 0)
		return config->levels;
	return config->tlab_bytes == HAB_TLAB_AUTO ? "none" : "clab=auto@cpu";
}

/* What may lie idle: half of it is for the TLABs, half for the buffers, if both are automatic. */
static uint64_t waste_share(const struct hab_heap *heap, const struct hab_heap_config *config,
			    int nr)
{
	uint32_t percent = config->waste_percent ? config->waste_percent : WASTE_DEFAULT;
	bool both = config->tlab_bytes == HAB_TLAB_AUTO && hab_levels_automatic(heap->levels, nr);

	return heap->arena_bytes / (both ? 200 : 100) * percent;
}

static int set_levels(struct hab_heap *heap, const struct hab_heap_config *config, int nr,
		      uint64_t waste)
{
	bool tolerant = config->flags & (HAB_HEAP_TOLERANT | HAB_HEAP_TOLERANT_RSEQ);

	if (tolerant && nr > 1)
		return -EINVAL;
	hab_levels_size(heap->levels, nr, heap->arena_bytes, waste);
	heap->nr_levels = nr;
	if (!nr) {
		/* One buffer for all, as large as can be, is the heap itself. */
		heap->levels[0].bytes = heap->arena_bytes < HAB_BUFFER_MAX ? heap->arena_bytes :
									     HAB_BUFFER_MAX;
		heap->levels[0].kind = HAB_DOMAIN_GLOBAL;
		nr = 1;
		heap->nr_levels = !tolerant;
	}
	return hab_hierarchy_check(heap->arena_bytes, nr, heap->levels);
}

static int set_tlabs(struct hab_heap *heap, size_t bytes, uint64_t waste)
{
	heap->tlab_bytes = TLAB_DEFAULT;
	if (bytes == HAB_TLAB_NONE) {
		heap->tlab_mode = HAB_TLABS_NONE;
		heap->tlab_bytes = 0;
	} else if (bytes == HAB_TLAB_GROWING) {
		heap->tlab_mode = HAB_TLABS_GROWING;
		heap->tlab_limit = heap->arena_bytes / 16;
	} else if (bytes == HAB_TLAB_AUTO) {
		heap->tlab_mode = HAB_TLABS_AUTO;
		heap->tlab_limit = waste;
	} else {
		if (bytes < TLAB_MIN || bytes > heap->arena_bytes)
			return -EINVAL;
		heap->tlab_mode = HAB_TLABS_FIXED;
		heap->tlab_bytes = (bytes + HAB_GRANULE - 1) & ~(HAB_GRANULE - 1);
	}
	return 0;
}

int hab_config_apply(struct hab_heap *heap, const struct hab_heap_config *given)
{
	struct hab_heap_config config;
	size_t page = sysconf(_SC_PAGESIZE);
	uint64_t waste;
	int err, nr;

	err = read_config(&config, given);
	if (!err)
		err = apply_environment(&config);
	if (!err)
		err = check_flags(&config);
	if (!err)
		err = set_name(heap, config.name);
	if (err)
		return err;
	if (config.arena_bytes > HAB_ARENA_MAX)
		return -ENOMEM;
	heap->arena_bytes = (config.arena_bytes + page - 1) & ~(page - 1);
	nr = hab_levels_parse(chosen_levels(&config), heap->levels);
	if (nr < 0)
		return nr;
	waste = waste_share(heap, &config, nr);
	err = set_levels(heap, &config, nr, waste);
	if (!err)
		err = set_tlabs(heap, config.tlab_bytes, waste);
	if (err)
		return err;
	heap->flags = config.flags;
	heap->verify = config.flags & HAB_HEAP_VERIFY;
	heap->shared = hab_heap_lowest(heap)->kind != HAB_DOMAIN_CPU;
	heap->lowest_bytes = hab_heap_lowest(heap)->bytes;
	heap->largest_in_tlab = heap->tlab_mode == HAB_TLABS_AUTO ? TLAB_DEFAULT : 0;
	heap->take = heap->shared ? hab_chunk_take_shared : hab_chunk_take_own;
	heap->sampling_interval = -1;
	return 0;
}
