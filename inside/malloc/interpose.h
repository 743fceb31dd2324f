/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Shared by the files with interposed functions.
 */
#ifndef HAB_MALLOC_INTERPOSE_H
#define HAB_MALLOC_INTERPOSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include "inside/live.h"

#define HAB_INTERPOSED __attribute__((visibility("default")))

/* Called last by an interposed function, and not inlined, so that this one saves no registers. */
#define HAB_SLOW __attribute__((noinline, cold))

/* Of C23: older C libraries do not declare them. */
void free_sized(void *p, size_t size);
void free_aligned_sized(void *p, size_t alignment, size_t size);

/*
 * Ends the live sample of the object at @p, which is about to be freed. false: it has none. A live
 * mapping at the same address stays: @p may be the first object of a pool in it.
 */
bool hab_forget(void *p);

/*
 * true if the object at @p is live; @object gets its copy. An entry that another object has left at
 * @p is dropped, if that was of another size.
 */
bool hab_is_live(void *p, struct hab_live_object *object);

/*
 * A filter of system calls is about to be set: detaches, if the process is attached to, and waits
 * for the end of the threads that do that, for two seconds at most.
 */
void hab_attach_leave(void);

/* Looks which operators of C++ are counted where they are called, see operators.c. */
void hab_try_operators(void);

/* The system's pages: 4, 16 or 64 KiB on arm64. */
static inline uintptr_t hab_page_bytes(void)
{
	return (uintptr_t)sysconf(_SC_PAGESIZE);
}

/*
 * As memcpy(); @from: NULL: zeros. A page that is zero already and is to be so is only read, which
 * makes nothing resident.
 */
void hab_copy(void *to, const void *from, size_t size);

/* As memset() to 0, of a new object: what was never touched stays so. */
void hab_zero(void *p, size_t size);

/**
 * hab_realloc_grown - an object without a sample has grown, and the bytes are not counted yet
 * @p: where it is now; the program does not have it yet
 * @size: as the program asked for
 * @before: its usable size before
 * @growth: of its usable size
 * @may_move: it may be copied to an aligned address, so that its sample can be live
 * @entry: HAB_SAMPLE_ENTRY
 *
 * Return: where it is now.
 */
void *hab_realloc_grown(void *p, size_t size, size_t before, size_t growth, bool may_move,
			uintptr_t entry);

#endif /* HAB_MALLOC_INTERPOSE_H */
