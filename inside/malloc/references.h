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
 * struct hab_references_changed - references of libraries
 * @changed: that lead elsewhere now
 * @unknown: that are not bound yet, and of which it is not known what they will be bound to. They
 *	are left as they are
 */
struct hab_references_changed {
	u32 changed;
	u32 unknown;
};

/**
 * hab_references_change - make the references of a library lead here, or back
 * @map: of a library that is loaded
 * @handle: by which it is held
 * @attaches: lead here
 * @changed: how many there were is added
 */
void hab_references_change(const struct link_map *map, void *handle, bool attaches,
			   struct hab_references_changed *changed);

#endif /* HAB_MALLOC_REFERENCES_H */
