/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What a heap is configured to be, after the caller's struct and the environment were read.
 */
#ifndef HAB_LIB_SETTINGS_H
#define HAB_LIB_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/hab.h"
#include "uapi/hab.h"

#define HAB_TLAB_DEFAULT (32u << 10)

/**
 * struct hab_settings - a valid configuration
 * @arena_bytes: a multiple of the page size
 * @nr_levels: 1 to HAB_MAX_LEVELS
 * @levels: from the one next to the heap to the one next to the TLABs
 * @level_names: their names
 * @tlab_mode: how TLABs are sized
 * @tlab_bytes: size of fixed TLABs; 0 without TLABs
 * @tlab_limit: bound of automatic sizes: of one TLAB for HAB_TLABS_GROWING, of all TLABs
 *	together for HAB_TLABS_AUTO
 * @alignment: of objects in TLABs
 * @flags: HAB_HEAP_*
 * @cids: the lowest level has the domain cid; its kind is HAB_DOMAIN_CPU, for heaps without it
 * @name: of the heap
 */
struct hab_settings {
	size_t arena_bytes;
	int nr_levels;
	struct hab_level levels[HAB_MAX_LEVELS];
	char level_names[HAB_MAX_LEVELS][HAB_LEVEL_NAME_LEN];
	enum hab_tlab_mode tlab_mode;
	size_t tlab_bytes;
	size_t tlab_limit;
	uint32_t alignment;
	uint32_t flags;
	bool cids;
	char name[HAB_NAME_LEN];
};

#endif /* HAB_LIB_SETTINGS_H */
