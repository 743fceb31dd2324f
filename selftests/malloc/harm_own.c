// SPDX-License-Identifier: GPL-2.0-only
/* A plugin with an allocator of its own, which ends the program for objects of another one. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

void *own_make(size_t size);
void own_end(void *p);
size_t own_count(void);

static char arena[32 << 20] __attribute__((aligned(16)));
static size_t used, count;

void *malloc(size_t size)
{
	size_t at = __atomic_fetch_add(&used, (size + 31) & ~15ul, __ATOMIC_RELAXED);

	count++;
	return at + size + 32 > sizeof(arena) ? NULL : arena + at;
}

void free(void *p)
{
	if (p && (uintptr_t)p - (uintptr_t)arena >= sizeof(arena))
		abort();
}

void *calloc(size_t nr, size_t size)
{
	return malloc(nr * size);
}

void *realloc(void *p, size_t size)
{
	return p ? NULL : malloc(size);
}

void *own_make(size_t size)
{
	return malloc(size);
}

void own_end(void *p)
{
	free(p);
}

size_t own_count(void)
{
	return count;
}
