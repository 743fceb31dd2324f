// SPDX-License-Identifier: GPL-2.0-only
/*
 * An allocator without locks, which frees nothing: signal handlers may allocate at any moment. So
 * what goes wrong is the preload library's.
 */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#define ARENA_BYTES (16ul << 30)
#define HEAD	    16

void *malloc(size_t size);
void free(void *p);
void *calloc(size_t count, size_t size);
void *realloc(void *p, size_t size);
void *memalign(size_t alignment, size_t size);
size_t malloc_usable_size(void *p);

static char *arena;
static size_t used;

/* Called first before there are threads. */
static char *find_arena(void)
{
	if (!arena)
		arena = mmap(NULL, ARENA_BYTES, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	return arena;
}

void *memalign(size_t alignment, size_t size)
{
	uintptr_t p;
	size_t at;

	if (alignment < HEAD)
		alignment = HEAD;
	if (size > ARENA_BYTES || find_arena() == MAP_FAILED) {
		errno = ENOMEM;
		return NULL;
	}
	size = (size + 15) & ~15ul;
	at = __atomic_fetch_add(&used, size + alignment + HEAD, __ATOMIC_RELAXED);
	if (at + size + alignment + HEAD > ARENA_BYTES) {
		errno = ENOMEM;
		return NULL;
	}
	p = ((uintptr_t)arena + at + HEAD + alignment - 1) & -alignment;
	*(size_t *)(p - HEAD) = size;
	return (void *)p;
}

void *malloc(size_t size)
{
	return memalign(HEAD, size);
}

void free(void *p)
{
	(void)p;
}

void *calloc(size_t count, size_t size)
{
	return malloc(count * size);
}

size_t malloc_usable_size(void *p)
{
	return p ? *(size_t *)((char *)p - HEAD) : 0;
}

void *realloc(void *p, size_t size)
{
	void *moved = malloc(size);

	if (moved && p)
		memcpy(moved, p, malloc_usable_size(p) < size ? malloc_usable_size(p) : size);
	return moved;
}
