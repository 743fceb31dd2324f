// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * jemalloc's own interface (tcmalloc has parts of it), as the program calls it.
 *
 * Objects of a numbered arena are sampled, but never live: the program may free the arena as a
 * whole. If no library has such a function, a program that finds this one gets what malloc() and
 * the others do. If another library than malloc()'s has them, they are that library's, and nothing
 * is sampled.
 */
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "inside/malloc/interpose.h"
#include "inside/live.h"
#include "inside/malloc/real.h"
#include "inside/malloc/sample.h"

#define FLAG_ZERO  0x40
#define FLAG_ARENA 0xfff00000u

HAB_INTERPOSED void *mallocx(size_t size, int flags);
HAB_INTERPOSED void *rallocx(void *p, size_t size, int flags);
HAB_INTERPOSED size_t xallocx(void *p, size_t size, size_t extra, int flags);
HAB_INTERPOSED size_t sallocx(const void *p, int flags);
HAB_INTERPOSED void dallocx(void *p, int flags);
HAB_INTERPOSED void sdallocx(void *p, size_t size, int flags);
HAB_INTERPOSED size_t nallocx(size_t size, int flags);

static size_t alignment_of(int flags)
{
	return 1ul << (flags & 0x3f);
}

static void *mallocx_by_malloc(size_t size, int flags)
{
	void *p = alignment_of(flags) > 16 ? memalign(alignment_of(flags), size) : malloc(size);

	if (p && (flags & FLAG_ZERO))
		hab_zero(p, malloc_usable_size(p));
	return p;
}

static HAB_SLOW void *mallocx_slow(size_t size, int flags)
{
	struct hab_malloc_sample sample;
	void *p = NULL;

	if (!hab_sample_begin(&sample, size, HAB_SAMPLE_ENTRY))
		return hab_real.mallocx(size, flags);
	if (!((unsigned int)flags & FLAG_ARENA))
		p = hab_sample_allocate(&sample, alignment_of(flags), size);
	/* As the allocator: to the end of the real size, where rallocx() goes on. */
	if (p && (flags & FLAG_ZERO))
		hab_zero(p, hab_real.usable_size(p));
	return hab_sample_end(&sample, p ? p : hab_real.mallocx(size, flags), size, size);
}

void *mallocx(size_t size, int flags)
{
	if (!hab_real.mallocx)
		return mallocx_by_malloc(size, flags);
	if (!hab_real.own_extended || hab_sample_count(size))
		return hab_real.mallocx(size, flags);
	return mallocx_slow(size, flags);
}

static void *rallocx_by_realloc(void *p, size_t size, int flags)
{
	size_t before = malloc_usable_size(p), after;
	void *moved;

	moved = alignment_of(flags) > 8 ? memalign(alignment_of(flags), size) : realloc(p, size);
	if (!moved)
		return NULL;
	after = hab_real.usable_size(moved);
	if (alignment_of(flags) > 8) {
		hab_copy(moved, p, before < after ? before : after);
		free(p);
	}
	if ((flags & FLAG_ZERO) && after > before)
		hab_zero((char *)moved + before, after - before);
	return moved;
}

static HAB_SLOW void *rallocx_slow(void *p, size_t size, int flags)
{
	uintptr_t entry = HAB_SAMPLE_ENTRY;
	struct hab_live_object object;
	size_t before, after;
	bool ordinary = !((unsigned int)flags & (FLAG_ARENA | FLAG_ZERO)) &&
			alignment_of(flags) <= HAB_LIVE_PAGE;

	/* The object is of memalign(). */
	if (hab_is_live(p, &object))
		return rallocx_by_realloc(p, size, flags);
	before = hab_real.usable_size(p);
	p = hab_real.rallocx(p, size, flags);
	after = p ? hab_real.usable_size(p) : 0;
	if (after <= before || hab_sample_count(after - before))
		return p;
	return hab_realloc_grown(p, size, before, after - before, ordinary, entry);
}

void *rallocx(void *p, size_t size, int flags)
{
	if (!hab_real.rallocx)
		return rallocx_by_realloc(p, size, flags);
	if (!hab_real.own_extended)
		return hab_real.rallocx(p, size, flags);
	return rallocx_slow(p, size, flags);
}

/* A live object stays as it is. */
size_t xallocx(void *p, size_t size, size_t extra, int flags)
{
	struct hab_live_object object;
	size_t before, after;

	if (!hab_real.xallocx || hab_is_live(p, &object))
		return malloc_usable_size(p);
	if (!hab_real.own_extended)
		return hab_real.xallocx(p, size, extra, flags);
	before = hab_real.usable_size(p);
	after = hab_real.xallocx(p, size, extra, flags);
	if (after > before && !hab_sample_count(after - before))
		hab_realloc_grown(p, after, before, after - before, false, HAB_SAMPLE_ENTRY);
	return after;
}

size_t sallocx(const void *p, int flags)
{
	struct hab_live_object object;

	if (!hab_real.sallocx || hab_is_live((void *)p, &object))
		return malloc_usable_size((void *)p);
	return hab_real.sallocx(p, flags);
}

void dallocx(void *p, int flags)
{
	if (!hab_real.dallocx || (hab_live_may_have(p) && hab_forget(p)))
		free(p);
	else
		hab_real.dallocx(p, flags);
}

void sdallocx(void *p, size_t size, int flags)
{
	/* A sampled object has not the size class of its size. */
	if (!hab_real.sdallocx || !((uintptr_t)p % HAB_LIVE_PAGE))
		dallocx(p, flags);
	else
		hab_real.sdallocx(p, size, flags);
}

size_t nallocx(size_t size, int flags)
{
	return hab_real.nallocx ? hab_real.nallocx(size, flags) : size;
}
