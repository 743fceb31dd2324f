/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
#ifndef HAB_LIB_LEVELS_H
#define HAB_LIB_LEVELS_H

#include <stdint.h>

#include "uapi/hab.h"

/**
 * hab_levels_parse - read a levels string
 * @text: "NAME=SIZE@DOMAIN[,...]", SIZE being "auto" or digits; or "none"
 * @levels: room for HAB_MAX_LEVELS; zeroed first
 *
 * Return: how many levels, 0 for "none", or -EINVAL. Automatic ones have no bytes yet.
 */
int hab_levels_parse(const char *text, struct hab_level *levels);

/* How many of them are automatic. */
int hab_levels_automatic(const struct hab_level *levels, int nr);

/**
 * hab_levels_size - choose the bounds of automatic levels
 * @levels: as parsed
 * @nr: how many
 * @bytes: of the arena
 * @waste: how much of it all buffers of automatic levels may hold together
 */
void hab_levels_size(struct hab_level *levels, int nr, uint64_t bytes, uint64_t waste);

/**
 * hab_size_parse - read a size with an optional suffix K, M, G or T
 *
 * Return: where the size ended, or NULL if there was none or it overflows.
 */
const char *hab_size_parse(const char *text, uint64_t *bytes);

#endif /* HAB_LIB_LEVELS_H */
