// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Memory for arenas, and the arenas that a forked child keeps for the objects from before the fork.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "lib/backend/arena.h"

#ifndef PR_SET_VMA
#define PR_SET_VMA	     0x53564d41
#define PR_SET_VMA_ANON_NAME 0
#endif

#define HUGE_PAGE	     (2ul << 20)
#define HUGE_PAGES_MIN_BYTES (4ul << 20)

/*
 * The beginning of a large arena has small pages, so that a program that needs little has no huge
 * page for each of its CPUs.
 */
#define SMALL_PAGES_PART      64
#define SMALL_PAGES_MAX_BYTES (16ul << 20)

void *hab_arena_reserve(size_t bytes)
{
	size_t slack = bytes >= HUGE_PAGE ? HUGE_PAGE : 0;
	size_t page = sysconf(_SC_PAGESIZE);
	char *start, *aligned, *end;

	start = mmap(NULL, bytes + slack, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
		     -1, 0);
	if (start == MAP_FAILED || !slack)
		return start;
	aligned = start + (-(uintptr_t)start & (HUGE_PAGE - 1));
	end = aligned + ((bytes + page - 1) & ~(page - 1));
	if (aligned > start)
		munmap(start, aligned - start);
	if (start + bytes + slack > end)
		munmap(end, start + bytes + slack - end);
	return aligned;
}

/* For /proc/PID/maps: "[anon:hab:NAME]". Kernels before 5.17, or without it, have no names. */
static void name_arena(const struct hab_heap *heap)
{
	char name[sizeof("hab:") + HAB_NAME_LEN];

	snprintf(name, sizeof(name), "hab:%s", heap->name);
	prctl(PR_SET_VMA, PR_SET_VMA_ANON_NAME, heap->arena, heap->arena_bytes, name);
}

int hab_arena_map(struct hab_heap *heap)
{
	void *arena = hab_arena_reserve(heap->arena_bytes);

	if (arena == MAP_FAILED)
		return -ENOMEM;
	if (mprotect(arena, heap->arena_bytes, PROT_READ | PROT_WRITE)) {
		munmap(arena, heap->arena_bytes);
		return -ENOMEM;
	}
	heap->arena = arena;
	name_arena(heap);
	return 0;
}

void hab_arena_ask_huge_pages(const struct hab_heap *heap)
{
	size_t small = heap->arena_bytes / SMALL_PAGES_PART & -HUGE_PAGE;

	if (small > SMALL_PAGES_MAX_BYTES)
		small = SMALL_PAGES_MAX_BYTES;
	/* With larger pages a huge one has 32 MiB or more, and the first touch takes all of it. */
	if (sysconf(_SC_PAGESIZE) > 4096)
		return;
	if (!(heap->flags & HAB_HEAP_SMALL_PAGES) && heap->arena_bytes >= HUGE_PAGES_MIN_BYTES)
		madvise(heap->arena + small, heap->arena_bytes - small, MADV_HUGEPAGE);
}

uint64_t hab_arena_trim(void *from, void *to)
{
	uintptr_t page = sysconf(_SC_PAGESIZE);
	uintptr_t start = ((uintptr_t)from + page - 1) & -page, end = (uintptr_t)to & -page;

	if (start >= end || madvise((void *)start, end - start, MADV_DONTNEED))
		return 0;
	return end - start;
}

struct hab_inherited {
	void *arena;
	size_t bytes;
	struct hab_inherited *next;
};

void hab_arena_inherit(struct hab_heap *heap)
{
	struct hab_inherited *inherited = malloc(sizeof(*inherited));

	/* Without the list entry the arena stays mapped until the process ends. */
	if (!inherited)
		return;
	inherited->arena = heap->arena;
	inherited->bytes = heap->arena_bytes;
	inherited->next = heap->inherited;
	heap->inherited = inherited;
}

void hab_arena_unmap_inherited(struct hab_heap *heap)
{
	struct hab_inherited *inherited;

	while ((inherited = heap->inherited)) {
		heap->inherited = inherited->next;
		munmap(inherited->arena, inherited->bytes);
		free(inherited);
	}
}
