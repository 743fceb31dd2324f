/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The chunks of regions: their size classes, and the head of each.
 */
#ifndef HAB_LIB_ALLOC_FREE_CHUNK_H
#define HAB_LIB_ALLOC_FREE_CHUNK_H

#include <stdint.h>

#include "core/os.h"

/*
 * Size classes: 0 is a region's first chunk, 1 the others, and from 2 on objects that are too large
 * for these, four classes for each doubling. Larger chunks have no class, and are extents when they
 * are free.
 */
#define HAB_CLASS_FIRST 0u
#define HAB_CLASS_NEXT	1u
#ifndef HAB_CLASSES /* explored tests have fewer */
#define HAB_CLASSES 32u
#endif
#define HAB_CLASS_NONE	      HAB_CLASSES

#define HAB_FIRST_CHUNK_BYTES (4ul << 10)
#define HAB_NEXT_CHUNK_BYTES  (32ul << 10)

/**
 * struct hab_free_chunk - head of each chunk of a region, free or not
 * @next: address of the next one in its list or region; 0: none. Sections read it, so it is first
 * @home: a CPU; or hab_lists_heap_home()
 * @class: its size class
 * @level: as in struct hab_chunk, 0 if its home is the heap
 * @freed_at: tick in which it was freed; or HAB_TRIMMED: its whole pages have no memory, but for
 *	the one with this head
 * @bytes: its size, with this head
 */
struct hab_free_chunk {
	u64 next;
	u32 home;
	u32 class;
	u32 level;
	u32 freed_at;
	u64 bytes;
};

#define HAB_TRIMMED 0u

/* No smaller extent is made. */
#ifndef HAB_LEAST_EXTENT /* explored tests have smaller ones */
#define HAB_LEAST_EXTENT (64ul << 10)
#endif

static inline struct hab_free_chunk *hab_free_chunk_at(u64 address)
{
	return (struct hab_free_chunk *)(uintptr_t)address;
}

#endif /* HAB_LIB_ALLOC_FREE_CHUNK_H */
