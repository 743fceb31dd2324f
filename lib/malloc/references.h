/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
#ifndef HAB_MALLOC_REFERENCES_H
#define HAB_MALLOC_REFERENCES_H

#include <link.h>
#include <stdbool.h>

#include "core/os.h"

/*
 * Finds the functions of this library that stand before others, and those. This and the next two:
 * in one thread, while no other is in fork().
 */
void hab_references_find(void);
/* false: the process may not read its own mappings, which is needed for each change. */
bool hab_references_may_change(void);

/**
 * hab_references_change - make the references of a library lead here, or back
 * @map: loaded, and held by a handle
 * @attaches: lead here
 *
 * Return: how many were changed.
 */
u32 hab_references_change(const struct link_map *map, bool attaches);

#endif /* HAB_MALLOC_REFERENCES_H */
