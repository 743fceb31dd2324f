// SPDX-License-Identifier: GPL-2.0-only
/*
 * jansson, expat and Lua, unmodified, on regions.
 */
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>

#include "kselftest_harness.h"
#include "lib/adapters/hab_expat.h"
#include "lib/adapters/hab_jansson.h"
#include "lib/adapters/hab_lua.h"

#define ARENA	 (4ul << 20)
#define REQUESTS 2000

FIXTURE(adapters)
{
	struct hab_heap *heap;
	struct hab_region region;
};

FIXTURE_SETUP(adapters)
{
	struct hab_heap_config config;

	hab_heap_config_init(&config);
	config.arena_bytes = ARENA;
	ASSERT_EQ(0, hab_heap_create(&self->heap, &config));
	ASSERT_EQ(0, hab_region_open(&self->region, self->heap));
}

FIXTURE_TEARDOWN(adapters)
{
	hab_thread_region_set(NULL);
	hab_heap_destroy(self->heap);
}

/* All requests together need many arenas. */
static void expect_reuse(struct __test_metadata *_metadata, struct hab_heap *heap)
{
	struct hab_heap_stats stats;

	ASSERT_EQ(0, hab_heap_stats(heap, &stats));
	EXPECT_LT(2 * ARENA, stats.region_bytes);
	EXPECT_EQ(0, stats.open_chunks);
}

TEST_F(adapters, documents_of_jansson_are_freed_with_their_region)
{
	json_t *root, *outside;
	char text[64], *dumped;
	int i, j;

	hab_jansson_init();
	outside = json_pack("[i]", 7);
	for (i = 0; i < REQUESTS; i++) {
		hab_thread_region_set(&self->region);
		root = json_array();
		for (j = 0; j < 100; j++) {
			snprintf(text, sizeof(text), "{\"number\": %d, \"list\": [%d, \"a\"]}", j,
				 i);
			json_array_append_new(root, json_loads(text, 0, NULL));
		}
		dumped = json_dumps(json_array_get(root, 99), JSON_COMPACT | JSON_SORT_KEYS);
		snprintf(text, sizeof(text), "{\"list\":[%d,\"a\"],\"number\":99}", i);
		ASSERT_NE(NULL, dumped);
		ASSERT_STREQ(text, dumped);
		/* Frees nothing, or malloc's memory. */
		json_decref(i % 2 ? root : NULL);
		hab_thread_region_set(NULL);
		hab_region_close(&self->region);
	}
	EXPECT_EQ(7, json_integer_value(json_array_get(outside, 0)));
	hab_thread_region_set(&self->region);
	json_decref(outside);
	expect_reuse(_metadata, self->heap);
}

static void count_element(void *context, const XML_Char *name, const XML_Char **attributes)
{
	int *elements = context;

	*elements += !strcmp(name, "item") && attributes[0] && !strcmp(attributes[1], "a value");
}

TEST_F(adapters, parsers_of_expat_are_freed_with_their_region)
{
	static char text[8000] = "<root>";
	XML_Parser parser;
	int i, elements = 0;

	for (i = 0; i < 200; i++)
		strcat(text, "<item name='a value'>text</item>");
	strcat(text, "</root>");
	for (i = 0; i < REQUESTS; i++) {
		hab_thread_region_set(&self->region);
		parser = hab_expat_parser(NULL);
		ASSERT_NE(NULL, parser);
		XML_SetUserData(parser, &elements);
		XML_SetStartElementHandler(parser, count_element);
		ASSERT_EQ(XML_STATUS_OK, XML_Parse(parser, text, strlen(text), 1));
		if (i % 2)
			XML_ParserFree(parser);
		hab_thread_region_set(NULL);
		hab_region_close(&self->region);
	}
	EXPECT_EQ(200 * REQUESTS, elements);
	expect_reuse(_metadata, self->heap);
}

TEST_F(adapters, states_of_lua_are_freed_with_their_region)
{
	static const char script[] = "local t = {} "
				     "for i = 1, 300 do t[i] = 'number ' .. i end "
				     "return #table.concat(t, ',')";
	lua_State *state;
	int i;

	for (i = 0; i < REQUESTS / 4; i++) {
		state = lua_newstate(hab_lua_alloc, &self->region);
		ASSERT_NE(NULL, state);
		lua_gc(state, LUA_GCSTOP);
		luaL_openlibs(state);
		ASSERT_EQ(LUA_OK, luaL_dostring(state, script));
		/* 300 times "number ", 792 digits, 299 commas. */
		ASSERT_EQ(3191, lua_tointeger(state, -1));
		if (i % 2)
			lua_close(state);
		hab_region_close(&self->region);
	}
	expect_reuse(_metadata, self->heap);
}

TEST_F(adapters, objects_that_grow_keep_their_bytes)
{
	char *object = NULL;
	size_t size, i;

	hab_thread_region_set(&self->region);
	for (size = 1; size < 5000; size += size / 3 + 1) {
		object = hab_thread_region_realloc(object, size);
		ASSERT_NE(NULL, object);
		object[size - 1] = size;
		if (size > 1)
			ASSERT_EQ(1, object[0]);
	}
	for (i = 0, size = 1; size < 5000; size += size / 3 + 1)
		i += object[size - 1] == (char)size;
	EXPECT_LT(20, i);
	EXPECT_EQ(NULL, hab_thread_region_realloc(object, SIZE_MAX));
	EXPECT_EQ(NULL, hab_thread_region_malloc(SIZE_MAX - 8));
	hab_thread_region_free(object);
	hab_thread_region_free(NULL);
	hab_region_close(&self->region);
}

TEST_HARNESS_MAIN
