/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * malloc, realloc and free on the calling thread's region, for libraries whose hooks have neither a
 * context nor the size of an object.
 *
 * Each object has a header of 16 bytes before it: its size, for realloc, and whether it is a
 * region's, because a library may free in a region what it has allocated without one. Freeing an
 * object of a region does nothing; its memory is freed when the region is closed. Growing one
 * copies it, so an object that grows in steps takes the sum of its sizes.
 */
#ifndef HAB_THREAD_REGION_H
#define HAB_THREAD_REGION_H

#include <hab.h>
#include <stdlib.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

struct hab_object_header_ {
	size_t size;
	size_t in_region;
};

/* Weak: one variable for all files of a program that include this. */
__attribute__((weak)) __thread struct hab_region *hab_thread_region_;

/**
 * hab_thread_region_set - the region of the calling thread's next allocations
 * @region: NULL: they are malloc's
 *
 * Return: the one before.
 */
static inline struct hab_region *hab_thread_region_set(struct hab_region *region)
{
	struct hab_region *before = hab_thread_region_;

	hab_thread_region_ = region;
	return before;
}

static inline void *hab_thread_region_malloc(size_t size)
{
	struct hab_region *region = hab_thread_region_;
	struct hab_object_header_ *header;
	size_t bytes;

	if (__builtin_add_overflow(size, sizeof(*header), &bytes))
		return NULL;
	header = (struct hab_object_header_ *)(region ? hab_region_alloc(region, bytes) :
							malloc(bytes));
	if (!header)
		return NULL;
	header->size = size;
	header->in_region = !!region;
	return header + 1;
}

static inline void hab_thread_region_free(void *object)
{
	struct hab_object_header_ *header = (struct hab_object_header_ *)object;

	if (header && !header[-1].in_region)
		free(header - 1);
}

static inline void *hab_thread_region_realloc(void *object, size_t size)
{
	struct hab_object_header_ *header = (struct hab_object_header_ *)object;
	void *moved;

	if (!header)
		return hab_thread_region_malloc(size);
	if (size <= header[-1].size)
		return object;
	moved = hab_thread_region_malloc(size);
	if (!moved)
		return NULL;
	memcpy(moved, object, header[-1].size);
	hab_thread_region_free(object);
	return moved;
}

#ifdef __cplusplus
}
#endif

#endif /* HAB_THREAD_REGION_H */
