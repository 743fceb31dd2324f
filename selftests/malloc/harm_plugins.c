// SPDX-License-Identifier: GPL-2.0-only
/* Modes of harm.c with plugins: what the dynamic linker binds, and the locks that it has. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harm.h"

#define PLUGIN(name) "build/tests/malloc_harm_" name ".so"
#define KEPT	     2000

static void *load(const char *path, int flags)
{
	void *plugin = dlopen(path, flags);

	if (!plugin)
		harmed(dlerror());
	return plugin;
}

static void *find(void *plugin, const char *symbol)
{
	void *found = dlsym(plugin, symbol);

	if (!found)
		harmed(symbol);
	return found;
}

/* The functions of one side. */
struct family {
	void *(*allocate)(unsigned int form, size_t size);
	void *(*resize)(unsigned int form, void *p, size_t size);
	void (*release)(void *p);
	size_t (*usable)(void *p);
};

static struct object {
	unsigned char *p;
	size_t size;
	unsigned char mark;
} kept[KEPT];

static void check(const struct object *object, size_t size)
{
	size_t i;

	for (i = 0; i < size && i < object->size; i++)
		if (object->p[i] != (unsigned char)(object->mark + i))
			harmed("an object has changed");
}

/* Each step is of a side that is chosen at random, so objects come and go across. */
static void step(struct object *object, const struct family *family, const struct family *other)
{
	uint64_t random = harm_random();
	size_t size = 1 + harm_random() % (harm_random() % 20 ? 600 : 40000);

	if (object->p && random % 3 == 0) {
		check(object, object->size);
		family->release(object->p);
		object->p = NULL;
		return;
	}
	if (object->p) {
		object->p = family->resize((unsigned int)(random >> 8), object->p, size);
		check(object, size);
	} else {
		object->p = family->allocate((unsigned int)(random >> 8), size);
	}
	if (!object->p)
		harmed("there is no memory");
	if (family->usable(object->p) < size)
		harmed("an object is smaller than asked for");
	/* What an earlier object at the address was said to have is not said of this one. */
	if (family->usable(object->p) != other->usable(object->p))
		harmed("an object has two sizes");
	object->size = size;
	object->mark = (unsigned char)(random >> 16);
	for (size = 0; size < object->size; size++)
		object->p[size] = (unsigned char)(object->mark + size);
}

void run_deepbind(void)
{
	const struct family own = { family_allocate, family_resize, family_free, family_usable };
	struct family family;
	void *plugin = load(PLUGIN("family"), RTLD_NOW | RTLD_DEEPBIND);
	int i;

	family.allocate = (__typeof__(family.allocate))find(plugin, "family_allocate");
	family.resize = (__typeof__(family.resize))find(plugin, "family_resize");
	family.release = (__typeof__(family.release))find(plugin, "family_free");
	family.usable = (__typeof__(family.usable))find(plugin, "family_usable");
	for (i = 0; i < 400000; i++)
		if (harm_random() % 3)
			step(&kept[harm_random() % KEPT], &own, &family);
		else
			step(&kept[harm_random() % KEPT], &family, &own);
	printf("%d steps\n", i);
}

/* A plugin with a C library of its own keeps its objects to itself. */
void run_namespace(void)
{
	void *plugin = dlmopen(LM_ID_NEWLM, PLUGIN("family"), RTLD_NOW);
	void *(*allocate)(unsigned int form, size_t size);
	void (*release)(void *p);
	int i;

	if (!plugin)
		harmed(dlerror());
	allocate = (__typeof__(allocate))find(plugin, "family_allocate");
	release = (__typeof__(release))find(plugin, "family_free");
	for (i = 0; i < 20000; i++) {
		unsigned char *p = allocate((unsigned int)i, 100 + (size_t)i % 5000);

		p[99] = (unsigned char)i;
		harm_churn(1000);
		if (p[99] != (unsigned char)i)
			harmed("an object of the plugin has changed");
		release(p);
	}
	printf("%d objects\n", i);
}

/* It is bound to itself, or to the program's allocator: its objects are freed where they are of. */
void run_own_malloc(void)
{
	static const int flags[] = { RTLD_LOCAL, RTLD_GLOBAL, RTLD_DEEPBIND };
	void *(*make)(size_t size);
	void (*end)(void *p);
	size_t (*count)(void);
	void *plugin;
	size_t i, j;

	for (i = 0; i < 3; i++) {
		plugin = load(PLUGIN("own"), RTLD_NOW | flags[i]);
		make = (__typeof__(make))find(plugin, "own_make");
		end = (__typeof__(end))find(plugin, "own_end");
		count = (__typeof__(count))find(plugin, "own_count");
		for (j = 0; j < 5000; j++) {
			char *p = make(100 + j);

			memset(p, 1, 100 + j);
			harm_churn(5000);
			end(p);
		}
		printf("%zu objects by its own functions\n", count());
		if (flags[i] != RTLD_GLOBAL)
			dlclose(plugin);
	}
}

/* A constructor of C++ waits for a thread, while the dynamic linker has its locks. */
void run_waiting_constructor(void)
{
	void *plugin = load(PLUGIN("waits"), RTLD_NOW);
	int (*result)(void) = (__typeof__(result))find(plugin, "waits_result");

	printf("%d bytes\n", result());
}

/* Objects of each plugin are of its own operators. */
void run_pools(void)
{
	int (*first)(int count) = (__typeof__(first))find(load(PLUGIN("std"), RTLD_NOW), "std_use");
	int (*second)(int count) =
		(__typeof__(second))find(load(PLUGIN("pool"), RTLD_NOW), "pool_use");
	int i;

	/* The first to delete is not the first to allocate. */
	printf("%d\n", first(0));
	for (i = 0; i < 20; i++) {
		printf("%d\n", second(100));
		printf("%d\n", first(100));
		harm_churn(10000);
	}
}
