/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
#ifndef HAB_LIB_ARENA_H
#define HAB_LIB_ARENA_H

#include "lib/heap.h"

/* Reserves @bytes of address space, aligned for huge pages; MAP_FAILED on error. */
void *hab_arena_reserve(size_t bytes);

/*
 * Maps @heap->arena: anonymous memory, aligned for huge pages, that is named after the heap where
 * the kernel has such names. 0 or -ENOMEM.
 */
int hab_arena_map(struct hab_heap *heap);

/*
 * Asks for huge pages, unless the heap has HAB_HEAP_SMALL_PAGES or its arena is small. Without
 * them in the kernel nothing changes.
 */
void hab_arena_ask_huge_pages(const struct hab_heap *heap);

/*
 * Gives the memory of the whole pages in [from, to) back to the system; they read as zeros then.
 * Returns their bytes, whether or not they had memory; 0 if the kernel refuses.
 */
uint64_t hab_arena_trim(void *from, void *to);

/* In a forked child: the heap's arena stays mapped until the heap is destroyed. */
void hab_arena_inherit(struct hab_heap *heap);

/* Unmaps the arenas that hab_arena_inherit() kept. */
void hab_arena_unmap_inherited(struct hab_heap *heap);

#endif /* HAB_LIB_ARENA_H */
