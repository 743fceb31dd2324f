// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The small objects of CPython, which its own allocator makes in arenas.
 *
 * The functions here stand before that allocator, for objects of at most SMALL bytes; larger ones
 * come to malloc(). A sampled object is one of malloc(), aligned to pages: CPython frees what is in
 * none of its arenas by free(), so nothing stands before its free functions. Arenas are not counted
 * then. If the program puts other functions in the place of these (-X dev), arenas count again, and
 * objects do not.
 *
 * An object that grows moves to a larger class, so its new bytes are drawn for as those of a new
 * object. What it grows by within its class is not counted: that is less than 16 bytes.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "inside/malloc/interpose.h"
#include "inside/malloc/sample.h"
#include "inside/malloc/real.h"
#include "inside/client.h"
#include "inside/python.h"

#define SMALL 512

/* CPython's PyMemAllocatorEx and PyObjectArenaAllocator. */
struct allocator {
	void *context;
	void *(*malloc)(void *context, size_t size);
	void *(*calloc)(void *context, size_t count, size_t size);
	void *(*realloc)(void *context, void *p, size_t size);
	void (*free)(void *context, void *p);
};

struct arena_allocator {
	void *context;
	void *(*allocate)(void *context, size_t size);
	void (*free)(void *context, void *arena, size_t size);
};

enum domain { RAW, MEMORY, OBJECTS };

void PyMem_GetAllocator(enum domain domain, struct allocator *allocator);
void PyMem_SetAllocator(enum domain domain, struct allocator *allocator);
void PyObject_SetArenaAllocator(struct arena_allocator *allocator);
#pragma weak PyMem_GetAllocator
#pragma weak PyMem_SetAllocator
#pragma weak PyObject_SetArenaAllocator

/* Of both domains: the same. */
static struct allocator own;

/* An object came to allocate(). */
static bool was_called;

static void *allocate(size_t size, uintptr_t entry)
{
	struct hab_malloc_sample sample;
	void *p;

	WRITE_ONCE(was_called, true);
	if (!hab_sample_begin(&sample, size, entry))
		return own.malloc(own.context, size);
	p = hab_sample_allocate(&sample, 1, size);
	if (!p)
		p = own.malloc(own.context, size);
	return hab_sample_end(&sample, p, size, size);
}

static HAB_SLOW void *malloc_slow(size_t size)
{
	return allocate(size, HAB_SAMPLE_ENTRY);
}

static void *count_malloc(void *context, size_t size)
{
	(void)context;
	if (size > SMALL || hab_sample_count(size))
		return own.malloc(own.context, size);
	return malloc_slow(size);
}

static HAB_SLOW void *calloc_slow(size_t size)
{
	void *p = allocate(size, HAB_SAMPLE_ENTRY);

	return p ? memset(p, 0, size) : NULL;
}

static void *count_calloc(void *context, size_t count, size_t size)
{
	size_t bytes;

	(void)context;
	if (__builtin_mul_overflow(count, size, &bytes) || bytes > SMALL || hab_sample_count(bytes))
		return own.calloc(own.context, count, size);
	return calloc_slow(bytes);
}

/* @moved has @size bytes, and is CPython's. */
static HAB_SLOW void *realloc_slow(void *moved, size_t size)
{
	struct hab_malloc_sample sample;
	void *p;

	if (!hab_sample_begin(&sample, size, HAB_SAMPLE_ENTRY))
		return moved;
	p = hab_sample_allocate(&sample, 1, size);
	if (p) {
		memcpy(p, moved, size);
		own.free(own.context, moved);
	} else {
		p = moved;
	}
	return hab_sample_end(&sample, p, size, size);
}

static void *count_realloc(void *context, void *p, size_t size)
{
	struct hab_live_object object;
	void *moved;

	(void)context;
	if (!p)
		return count_malloc(context, size);
	moved = own.realloc(own.context, p, size);
	/* Sampled objects come to realloc(), which aligns a large one that has become small. */
	if (moved == p || !moved || size > SMALL || !((uintptr_t)p % HAB_LIVE_PAGE) ||
	    hab_is_live(moved, &object) || hab_sample_count(size))
		return moved;
	return realloc_slow(moved, size);
}

/* The program may have put others before these functions, as tracemalloc does. */
static bool is_counting(void)
{
	struct allocator now;

	if (READ_ONCE(was_called))
		return true;
	PyMem_GetAllocator(OBJECTS, &now);
	return now.malloc == count_malloc;
}

static void *map_arena(void *context, size_t size)
{
	void *arena;

	(void)context;
	if (is_counting())
		arena = hab_real.mmap(NULL, size, PROT_READ | PROT_WRITE,
				      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	else
		arena = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			     0);
	return arena == MAP_FAILED ? NULL : arena;
}

static void unmap_arena(void *context, void *arena, size_t size)
{
	(void)context;
	munmap(arena, size);
}

static void set_functions(enum domain domain)
{
	struct allocator counting = own;

	counting.malloc = count_malloc;
	counting.calloc = count_calloc;
	counting.realloc = count_realloc;
	PyMem_SetAllocator(domain, &counting);
}

/* Behind the constructor of malloc_sample.c, and before the interpreter begins. */
__attribute__((constructor)) static void start(void)
{
	struct arena_allocator arenas = { NULL, map_arena, unmap_arena };
	struct allocator memory, raw;

	if (!hab_python_is_known() || !hab_client_channel() || !hab_real.mmap ||
	    !PyMem_GetAllocator || !PyMem_SetAllocator || !PyObject_SetArenaAllocator ||
	    getenv("PYTHONMALLOC"))
		return;
	PyMem_GetAllocator(OBJECTS, &own);
	PyMem_GetAllocator(MEMORY, &memory);
	PyMem_GetAllocator(RAW, &raw);
	/* Without pymalloc objects come from malloc(), which counts them. */
	if (memcmp(&own, &memory, sizeof(own)) != 0 || own.malloc == raw.malloc)
		return;
	set_functions(MEMORY);
	set_functions(OBJECTS);
	PyObject_SetArenaAllocator(&arenas);
}
