// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Lua with a region for each script: a state is freed at once.
 *
 *	cc with_lua.c $(pkg-config --cflags --libs hab lua5.4) -pthread && ./a.out
 */
#include <hab_lua.h>
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <stdio.h>

int main(void)
{
	struct hab_region region;
	struct hab_heap *heap;
	lua_Integer sum = 0;
	lua_State *state;
	int i;

	if (hab_heap_create(&heap, NULL))
		return 1;
	hab_region_open(&region, heap);
	for (i = 0; i < 1000; i++) {
		state = lua_newstate(hab_lua_alloc, &region);
		/* It would save nothing. */
		lua_gc(state, LUA_GCSTOP);
		luaL_openlibs(state);
		if (!luaL_dostring(state, "local t = {} for i = 1, 100 do t[i] = i end return #t"))
			sum += lua_tointeger(state, -1);
		/* No lua_close(). */
		hab_region_close(&region);
	}
	printf("sum %lld\n", (long long)sum);
	hab_heap_destroy(heap);
	return 0;
}
