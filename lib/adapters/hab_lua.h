/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Lua on a region: a state is freed with its region, with or without lua_close().
 *
 *	hab_region_open(&region, heap);
 *	state = lua_newstate(hab_lua_alloc, &region);
 *	...
 *	hab_region_close(&region);
 *
 * For scripts of a request. Lua gives the old size, so objects have no header. Memory that its
 * collector frees stays taken until the region is closed, and an object that grows is copied: stop
 * the collector (lua_gc(state, LUA_GCSTOP)), which would save nothing.
 */
#ifndef HAB_LUA_H
#define HAB_LUA_H

#include <hab.h>
#include <string.h>

/* A lua_Alloc; its context is a struct hab_region. */
static inline void *hab_lua_alloc(void *region, void *object, size_t old_size, size_t size)
{
	void *moved;

	if (!size)
		return NULL;
	/* Without an object the old size is a type. */
	if (object && size <= old_size)
		return object;
	moved = hab_region_alloc((struct hab_region *)region, size);
	if (moved && object)
		memcpy(moved, object, old_size);
	return moved;
}

#endif /* HAB_LUA_H */
