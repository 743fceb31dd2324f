/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
#ifndef HAB_LIB_CONFIG_H
#define HAB_LIB_CONFIG_H

#include "lib/settings.h"

/**
 * hab_config_read - a caller's configuration and the environment as settings
 * @settings: the result
 * @given: the caller's configuration, NULL for the defaults
 *
 * The environment has the defaults of what @given leaves open, and overrides for debugging.
 *
 * Return: 0, -EINVAL, -E2BIG or -ENOMEM as hab_heap_create().
 */
int hab_config_read(struct hab_settings *settings, const struct hab_heap_config *given);

#endif /* HAB_LIB_CONFIG_H */
