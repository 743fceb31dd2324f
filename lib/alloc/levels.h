/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
#ifndef HAB_LIB_LEVELS_H
#define HAB_LIB_LEVELS_H

#include "lib/settings.h"

/**
 * hab_levels_parse - read a levels string
 * @settings: with the arena's size; its levels, their names and their number are filled in
 * @text: "NAME=SIZE@DOMAIN[,...]", SIZE being "auto" or digits; or "none", which is one buffer
 *	for all CPUs
 *
 * Return: 0 or -EINVAL. Automatic levels have no size yet.
 */
int hab_levels_parse(struct hab_settings *settings, const char *text);

/* The number of automatic levels. */
int hab_levels_automatic(const struct hab_settings *settings);

/**
 * hab_levels_size - choose the sizes of automatic levels
 * @settings: with parsed levels
 * @waste: bytes that all buffers of automatic levels may hold together
 */
void hab_levels_size(struct hab_settings *settings, uint64_t waste);

/**
 * hab_size_parse - read a size with an optional suffix K, M, G or T
 * @text: begins with the size
 * @bytes: the result
 *
 * Return: where the size ended, or NULL if there was none or it overflows.
 */
const char *hab_size_parse(const char *text, uint64_t *bytes);

#endif /* HAB_LIB_LEVELS_H */
