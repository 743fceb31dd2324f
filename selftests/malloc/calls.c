// SPDX-License-Identifier: GPL-2.0-only
/*
 * Random calls of an allocator, right and wrong ones: malloc_calls SEED CALLS QUIRKS. Prints a hash
 * of what the program can see: which calls fail, and errno. Alignment, the content that realloc()
 * keeps, zeroes, and usable sizes are checked here. The bare allocator and the watched one have to
 * print the same.
 *
 * QUIRKS: p: the allocator has no pvalloc(); a: it does not align each object.
 *
 * It begins when it can read a byte from descriptor 3.
 */
#include <errno.h>
#include <malloc.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define KEPT	   2000
#define ERRNO_SEEN 12345

static uint64_t random_state, hash = 14695981039346656037ull;
static struct object {
	unsigned char *p;
	size_t size;
	unsigned char mark;
} kept[KEPT];
static bool no_pvalloc, aligns_wrongly;
static const char *operation = "start";
static size_t calls;

static uint64_t next_random(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state;
}

static void see(uint64_t value)
{
	hash = (hash ^ value) * 1099511628211ull;
}

static void fail(const char *what, const void *p, size_t size)
{
	fprintf(stderr, "call %zu, %s: %s: %p, %zu bytes\n", calls, operation, what, p, size);
	_exit(8);
}

/* Most are small; some are none, some have pages of their own. */
static size_t random_size(void)
{
	uint64_t kind = next_random() % 1000;

	if (kind < 20)
		return 0;
	if (kind < 600)
		return next_random() % 200;
	if (kind < 960)
		return next_random() % 5000;
	if (kind < 998)
		return next_random() % 100000;
	return next_random() % 4000000;
}

static size_t wrong_size(void)
{
	static const size_t sizes[] = { SIZE_MAX, SIZE_MAX / 2, SIZE_MAX - 4096, 1ul << 62,
					(1ul << 63) + 5 };

	return sizes[next_random() % 5];
}

/* Only the ends are looked at, to be fast. */
static void fill(struct object *object, size_t from)
{
	size_t i, edge = object->size < 256 ? object->size : 256;

	object->mark = (unsigned char)next_random();
	(void)from;
	for (i = 0; i < edge; i++) {
		object->p[i] = (unsigned char)(object->mark + i);
		object->p[object->size - 1 - i] = (unsigned char)(object->mark ^ 0x55);
	}
	for (i = 0; i < edge; i++)
		object->p[i] = (unsigned char)(object->mark + i);
}

static void check(const struct object *object, const unsigned char *p, size_t size)
{
	size_t i, edge = size < 256 ? size : 256;

	if (object->size < edge)
		edge = object->size;
	for (i = 0; i < edge; i++)
		if (p[i] != (unsigned char)(object->mark + i))
			fail("the beginning has changed", p, size);
	if (size < object->size || object->size < 512)
		return;
	for (i = 0; i < 256; i++)
		if (p[object->size - 1 - i] != (unsigned char)(object->mark ^ 0x55))
			fail("the end has changed", p, object->size);
}

static void keep(struct object *object, void *p, size_t size, size_t alignment)
{
	see(!p);
	see((uint64_t)errno);
	object->p = p;
	object->size = size;
	if (!p) {
		object->size = 0;
		return;
	}
	/* Some allocators do not align objects without bytes. */
	if (size && (uintptr_t)p % (aligns_wrongly ? 8 : alignment))
		fail("is not aligned", p, alignment);
	if (malloc_usable_size(p) < size)
		fail("is smaller than asked for", p, size);
	fill(object, 0);
}

static void check_zero(const unsigned char *p, size_t size)
{
	size_t i;

	for (i = 0; p && i < size; i++)
		if (p[i])
			fail("is not zero", p, size);
}

static void allocate(struct object *object)
{
	size_t size = random_size(), alignment = 1ul << next_random() % 14;
	size_t usual = size < 16 ? 8 : 16;
	void *p = NULL;
	int err;

	errno = ERRNO_SEEN;
	switch (next_random() % 8) {
	case 0:
		operation = "calloc";
		p = calloc(1 + size / 100, size < 100 ? size : 100);
		size = (1 + size / 100) * (size < 100 ? size : 100);
		check_zero(p, size);
		keep(object, p, size, size < 16 ? 8 : 16);
		return;
	case 1:
		operation = "posix_memalign";
		err = posix_memalign(&p, alignment, size);
		see((uint64_t)err);
		keep(object, err ? NULL : p, size, alignment);
		return;
	case 2:
		operation = "aligned_alloc";
		size = (size + alignment - 1) & -alignment;
		keep(object, aligned_alloc(alignment, size), size, alignment);
		return;
	case 3:
		operation = "memalign";
		keep(object, memalign(alignment, size), size, alignment);
		return;
	case 4:
		operation = "valloc";
		if (next_random() % 10) {
			keep(object, malloc(size), size, usual);
			return;
		}
		keep(object, no_pvalloc || next_random() % 2 ? valloc(size) : pvalloc(size), size,
		     (size_t)sysconf(_SC_PAGESIZE));
		return;
	case 5:
		operation = "realloc of NULL";
		keep(object, realloc(NULL, size), size, usual);
		return;
	default:
		operation = "malloc";
		keep(object, malloc(size), size, usual);
	}
}

static void resize(struct object *object)
{
	size_t size = random_size();
	unsigned char *p;

	if (next_random() % 2)
		size = object->size + next_random() % 300;
	errno = ERRNO_SEEN;
	if (next_random() % 4) {
		operation = "realloc";
		p = realloc(object->p, size);
	} else {
		operation = "reallocarray";
		size &= ~3ul;
		p = reallocarray(object->p, size / 4, 4);
	}
	if (p)
		check(object, p, size);
	keep(object, p, size, size < 16 ? 8 : 16);
}

/* All of these fail and change nothing. */
static void call_wrongly(struct object *object)
{
	void *p = &random_state;
	int err = 0;

	errno = ERRNO_SEEN;
	switch (next_random() % 9) {
	case 0:
		operation = "malloc, too large";
		p = malloc(wrong_size());
		break;
	case 1:
		operation = "calloc, too large";
		p = calloc(wrong_size(), 16);
		break;
	case 2:
		operation = "realloc, too large";
		p = realloc(object->p, wrong_size());
		break;
	case 3:
		operation = "reallocarray, too large";
		p = reallocarray(object->p, wrong_size() | 1ul << 61, 8);
		break;
	case 4:
		operation = "posix_memalign, wrong alignment";
		err = posix_memalign(&p, 24, 100);
		if (p != &random_state)
			fail("was written", p, 0);
		p = NULL;
		break;
	case 5:
		operation = "posix_memalign, too large";
		err = posix_memalign(&p, 64, wrong_size());
		if (p != &random_state)
			fail("was written", p, 0);
		p = NULL;
		break;
	case 6:
		operation = "aligned_alloc, too large";
		p = aligned_alloc(64, wrong_size() & -64ul);
		break;
	case 7:
		operation = "memalign, too large";
		p = memalign(64, wrong_size());
		break;
	default:
		operation = "free of NULL";
		free(NULL);
		p = NULL;
	}
	see((uint64_t)err);
	see((uint64_t)errno);
	if (p)
		fail("should have failed", p, 0);
	if (object->p)
		check(object, object->p, object->size);
}

static void release(struct object *object)
{
	operation = "free";
	errno = ERRNO_SEEN;
	check(object, object->p, object->size);
	free(object->p);
	see((uint64_t)errno);
	object->p = NULL;
	object->size = 0;
}

int main(int argc, char **argv)
{
	struct object *object;
	size_t count;
	char byte;

	if (argc != 4 || read(3, &byte, 1) != 1)
		return 2;
	random_state = strtoull(argv[1], NULL, 10) | 1;
	count = strtoull(argv[2], NULL, 10);
	no_pvalloc = strchr(argv[3], 'p');
	aligns_wrongly = strchr(argv[3], 'a');
	free(malloc(2 << 20));
	for (calls = 0; calls < count; calls++) {
		object = &kept[next_random() % KEPT];
		if (next_random() % 50 == 0)
			call_wrongly(object);
		else if (!object->p)
			allocate(object);
		else if (next_random() % 2)
			release(object);
		else
			resize(object);
		if (calls % (count / 20) == 0)
			printf("after %zu calls, the last a %s: %lx\n", calls, operation, hash);
	}
	printf("%lx\n", hash);
	return 0;
}
