/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * jansson on regions: documents are freed with their region, without json_decref().
 *
 *	hab_jansson_init();			// once, before jansson is used
 *	...
 *	hab_region_open(&region, heap);
 *	hab_thread_region_set(&region);
 *	root = json_loads(text, 0, &error);	// all of it is in the region
 *	...
 *	hab_thread_region_set(NULL);
 *	hab_region_close(&region);
 *
 * json_decref() is harmless and frees nothing. What json_dumps() returns is in the region as well.
 */
#ifndef HAB_JANSSON_H
#define HAB_JANSSON_H

#include <jansson.h>

#include "hab_thread_region.h"

static inline void hab_jansson_init(void)
{
	json_set_alloc_funcs(hab_thread_region_malloc, hab_thread_region_free);
}

#endif /* HAB_JANSSON_H */
