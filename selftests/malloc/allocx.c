// SPDX-License-Identifier: GPL-2.0-only
/*
 * Random calls of jemalloc's own interface: malloc_allocx SEED CALLS. Prints a hash of which calls
 * fail and of the sizes that nallocx() promises. Alignment, content, zeroes and sizes are checked
 * here. The bare allocator and the watched one have to print the same.
 *
 * With MALLOCX_ZERO all bytes of the real size are zero, also those after what was asked for, and
 * rallocx() zeroes what follows the former real size.
 *
 * It begins when it can read a byte from descriptor 3.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* jemalloc/jemalloc.h, which its own package has. */
void *mallocx(size_t size, int flags);
void *rallocx(void *p, size_t size, int flags);
size_t xallocx(void *p, size_t size, size_t extra, int flags);
size_t sallocx(const void *p, int flags);
void dallocx(void *p, int flags);
void sdallocx(void *p, size_t size, int flags);
size_t nallocx(size_t size, int flags);
int mallctl(const char *name, void *old, size_t *old_size, void *new, size_t new_size);

#define ZERO	 0x40
#define NO_CACHE (1 << 8)
#define ARENA(a) ((int)((a) + 1) << 20)
#define KEPT	 1000
#define EDGE	 200

static uint64_t random_state, hash = 14695981039346656037ull;
static struct object {
	unsigned char *p;
	size_t size;  /* the first bytes have the mark */
	size_t asked; /* as sdallocx() takes it */
	int flags;
	bool is_zero; /* from @size on */
	unsigned char mark;
} kept[KEPT];
static const char *operation = "start";
static size_t calls;
static unsigned int arena;

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

static void fail(const char *what, const struct object *object, size_t size)
{
	fprintf(stderr, "call %zu, %s: %s: %p, %zu bytes, flags %x\n", calls, operation, what,
		object->p, size, object->flags);
	_exit(8);
}

static size_t random_size(void)
{
	uint64_t kind = next_random() % 1000;

	if (kind < 700)
		return 1 + next_random() % 500;
	if (kind < 998)
		return 1 + next_random() % 40000;
	return 1 + next_random() % 3000000;
}

/* Of one object all calls have the same alignment and arena. */
static int random_flags(void)
{
	int flags = next_random() % 3 ? 0 : (int)(next_random() % 14);

	if (next_random() % 4 == 0)
		flags |= ZERO;
	if (next_random() % 8 == 0)
		flags |= NO_CACHE;
	if (next_random() % 8 == 0)
		flags |= NO_CACHE | ARENA(arena);
	return flags;
}

/* Only the beginning is looked at, to be fast. */
static void check_mark(const struct object *object, size_t size)
{
	size_t i;

	for (i = 0; i < size && i < EDGE; i++)
		if (object->p[i] != (unsigned char)(object->mark + i))
			fail("the content has changed", object, size);
}

static void check_zero(const struct object *object, size_t from)
{
	size_t end = sallocx(object->p, object->flags), i;

	for (i = from; i < end; i++)
		if (object->p[i])
			fail("is not zero", object, i);
}

/* The object has @size bytes now, and is zero from @size on if it was. */
static void fill(struct object *object, size_t size)
{
	size_t i;

	object->size = size;
	object->mark = (unsigned char)next_random();
	for (i = 0; i < size; i++)
		object->p[i] = i < EDGE ? (unsigned char)(object->mark + i) : 0x5a;
}

static void check_size(const struct object *object, size_t size)
{
	size_t alignment = (size_t)1 << (object->flags & 0x3f);

	if ((uintptr_t)object->p % alignment)
		fail("is not aligned", object, alignment);
	if (sallocx(object->p, object->flags) < size)
		fail("is smaller than asked for", object, size);
}

static void allocate(struct object *object)
{
	size_t size = random_size();

	operation = "mallocx";
	object->flags = random_flags();
	see(nallocx(size, object->flags));
	object->p = mallocx(size, object->flags);
	see(!object->p);
	if (!object->p)
		return;
	check_size(object, size);
	object->is_zero = object->flags & ZERO;
	if (object->is_zero)
		check_zero(object, 0);
	object->asked = size;
	fill(object, size);
}

static void resize(struct object *object)
{
	size_t size = random_size(), kept_size;
	unsigned char *p;

	if (next_random() % 2)
		size = object->asked + next_random() % 300;
	operation = "rallocx";
	p = rallocx(object->p, size, object->flags);
	see(!p);
	if (!p)
		return;
	object->p = p;
	check_size(object, size);
	kept_size = size < object->size ? size : object->size;
	check_mark(object, kept_size);
	if (size < object->size)
		object->is_zero = false;
	if (object->is_zero)
		check_zero(object, object->size);
	object->asked = size;
	fill(object, size);
}

/* What comes of it depends on where the object is. */
static void resize_in_place(struct object *object)
{
	size_t before = sallocx(object->p, object->flags);
	size_t size = object->asked + next_random() % 300, extra = next_random() % 5000, after;

	operation = "xallocx";
	after = xallocx(object->p, size, extra, object->flags);
	/* jemalloc 5.3 may return the size before, though the object has grown. */
	if (after > sallocx(object->p, object->flags))
		fail("is smaller than xallocx() said", object, after);
	if (after < before && after < size)
		fail("has shrunk below its size", object, after);
	check_mark(object, object->size);
	/* Whether it has grown, and was zeroed, differs; the next fill goes as far as before. */
	object->asked = sallocx(object->p, object->flags);
	object->is_zero = false;
	fill(object, object->size);
}

static void release(struct object *object)
{
	check_mark(object, object->size);
	if (next_random() % 2) {
		operation = "sdallocx";
		sdallocx(object->p, object->asked, object->flags & ~ZERO);
	} else {
		operation = "dallocx";
		dallocx(object->p, object->flags & ~ZERO);
	}
	object->p = NULL;
}

/* All objects of the arena are freed at once. */
static void reset_arena(void)
{
	char name[40];
	size_t i;

	operation = "reset of an arena";
	snprintf(name, sizeof(name), "arena.%u.reset", arena);
	for (i = 0; i < KEPT; i++) {
		if (!kept[i].p || kept[i].flags < ARENA(0))
			continue;
		check_mark(&kept[i], kept[i].size);
		kept[i].p = NULL;
	}
	see((uint64_t)mallctl(name, NULL, NULL, NULL, 0));
}

int main(int argc, char **argv)
{
	size_t count, size = sizeof(arena);
	struct object *object;
	char byte;

	if (argc != 3 || read(3, &byte, 1) != 1 || mallctl("arenas.create", &arena, &size, NULL, 0))
		return 2;
	random_state = strtoull(argv[1], NULL, 10) | 1;
	count = strtoull(argv[2], NULL, 10);
	for (calls = 0; calls < count; calls++) {
		object = &kept[next_random() % KEPT];
		if (calls % (count / 20) == count / 40)
			reset_arena();
		if (!object->p)
			allocate(object);
		else if (next_random() % 2)
			release(object);
		else if (next_random() % 4)
			resize(object);
		else
			resize_in_place(object);
	}
	printf("%zu calls: %lx\n", calls, hash);
	return 0;
}
