// SPDX-License-Identifier: GPL-2.0-only
/*
 * Sources of CPython's arenas, see runtime_arenas.h.
 *
 * On hab each arena is the only object of a region, which is closed when CPython frees the arena.
 * Its chunk then waits in the list of its home for the next arena that is taken there. The region
 * lies behind its arena, in the same object.
 *
 * CPython holds its global lock when it takes or frees an arena, so nothing here needs one.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "bench/programs/runtime_arenas.h"
#include "lib/hab.h"

/* CPython divides an arena into such parts: one that begins at a multiple loses no memory. */
#define POOL_BYTES (16ul << 10)
/* CPython asks for an arena by this size; what is smaller is for the frames of a thread. */
#define ARENA_BYTES (1ul << 20)
/* Address space: more than any workload takes. */
#define MEMORY_BYTES (8ul << 30)

static struct runtime_options options;
static struct runtime_usage usage;

/* --- own ------------------------------------------------------------------------------ */

static PyObjectArenaAllocator own;

static void *own_take(size_t size)
{
	return own.alloc(own.ctx, size);
}

static void own_free(void *arena, size_t size)
{
	own.free(own.ctx, arena, size);
}

/* --- list ----------------------------------------------------------------------------- */

struct listed_arena {
	struct listed_arena *next;
};

static struct listed_arena *free_arenas;
static char *fresh, *fresh_end;

static int list_open(void)
{
	fresh = mmap(NULL, MEMORY_BYTES, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (fresh == MAP_FAILED) {
		perror("runtime: mmap");
		return -1;
	}
	fresh_end = fresh + MEMORY_BYTES;
	if (!options.small_pages)
		madvise(fresh, MEMORY_BYTES, MADV_HUGEPAGE);
	return 0;
}

/* Frames stay CPython's. */
static void *list_take(size_t size)
{
	void *arena = free_arenas;

	if (size < ARENA_BYTES)
		return own_take(size);
	if (arena) {
		free_arenas = free_arenas->next;
		return arena;
	}
	if ((size_t)(fresh_end - fresh) < size)
		return NULL;
	arena = fresh;
	fresh += size;
	return arena;
}

static void list_free(void *memory, size_t size)
{
	struct listed_arena *arena = memory;

	if (size < ARENA_BYTES) {
		own_free(memory, size);
		return;
	}
	if (options.release)
		madvise(memory, size, MADV_DONTNEED);
	arena->next = free_arenas;
	free_arenas = arena;
}

/* --- hab ------------------------------------------------------------------------------ */

/**
 * struct region_arena - what lies behind an arena
 * @region: has the arena and this
 * @next: neighbours in the ring of arenas in use; this and the next
 * @previous: likewise
 * @cpu: on which it was taken
 */
struct region_arena {
	struct hab_region region;
	struct region_arena *next;
	struct region_arena *previous;
	int cpu;
};

static struct hab_heap *heap;
static struct region_arena in_use = { .next = &in_use, .previous = &in_use };

static int hab_open(void)
{
	struct hab_heap_config config;
	int err;

	hab_heap_config_init(&config);
	config.arena_bytes = MEMORY_BYTES;
	config.name = "python";
	/* A chunk for an arena of 1 MiB is of the size class of 1.25 MiB. */
	config.levels = options.levels ? options.levels : "clab=11M@cpu";
	config.flags = (options.device ? HAB_HEAP_DEVICE : 0) |
		       (options.verify ? HAB_HEAP_VERIFY : 0) |
		       (options.small_pages ? HAB_HEAP_SMALL_PAGES : 0);
	err = hab_heap_create(&heap, &config);
	if (err)
		fprintf(stderr, "runtime: no heap: %s\n", strerror(-err));
	return err ? -1 : 0;
}

static void *hab_take(size_t size)
{
	size_t alignment = size < ARENA_BYTES ? 1 : POOL_BYTES;
	struct region_arena *behind;
	struct hab_region region;
	char *object, *arena;

	hab_region_open(&region, heap);
	object = hab_region_alloc(&region, alignment - 1 + size + sizeof(*behind));
	if (!object)
		return NULL;
	arena = object + (-(uintptr_t)object & (alignment - 1));
	behind = (struct region_arena *)(arena + size);
	behind->region = region;
	behind->cpu = sched_getcpu();
	behind->next = in_use.next;
	behind->previous = &in_use;
	behind->next->previous = behind;
	in_use.next = behind;
	return arena;
}

static void hab_free(void *arena, size_t size)
{
	struct region_arena *behind = (struct region_arena *)((char *)arena + size);
	struct hab_region region = behind->region;

	behind->next->previous = behind->previous;
	behind->previous->next = behind->next;
	usage.freed_elsewhere += behind->cpu != sched_getcpu();
	if (options.release && size >= ARENA_BYTES)
		madvise(arena, size, MADV_DONTNEED);
	hab_region_close(&region);
}

/* --- all ------------------------------------------------------------------------------ */

static const struct source {
	const char *name;
	int (*open)(void);
	void *(*take)(size_t size);
	void (*free)(void *arena, size_t size);
} sources[] = {
	{ "own", NULL, own_take, own_free },
	{ "list", list_open, list_take, list_free },
	{ "hab", hab_open, hab_take, hab_free },
};

static void *count_taken(void *source, size_t size)
{
	void *arena = ((const struct source *)source)->take(size);

	if (arena) {
		usage.taken++;
		if (usage.taken - usage.freed > usage.most)
			usage.most = usage.taken - usage.freed;
	}
	return arena;
}

static void count_freed(void *source, void *arena, size_t size)
{
	usage.freed++;
	((const struct source *)source)->free(arena, size);
}

int runtime_arenas_from(const char *name, const struct runtime_options *wanted)
{
	PyObjectArenaAllocator counted = { .alloc = count_taken, .free = count_freed };
	size_t i;

	options = *wanted;
	for (i = 0; i < sizeof(sources) / sizeof(sources[0]); i++) {
		if (strcmp(sources[i].name, name) != 0)
			continue;
		counted.ctx = (void *)&sources[i];
		PyObject_GetArenaAllocator(&own);
		PyObject_SetArenaAllocator(&counted);
		return sources[i].open ? sources[i].open() : 0;
	}
	fprintf(stderr, "runtime: no source of arenas is called \"%s\": use own, list or hab\n",
		name);
	return -1;
}

void runtime_arenas_usage(struct runtime_usage *result)
{
	struct hab_heap_stats stats;
	uint64_t free_bytes = 0;
	size_t i;

	*result = usage;
	if (!heap || hab_heap_stats(heap, &stats))
		return;
	for (i = 0; i < HAB_STATS_LEVELS; i++)
		free_bytes += stats.free_chunk_bytes[i];
	result->fresh = stats.chunks;
	result->listed = stats.listed_chunks;
	result->verified = stats.verified;
	result->foreign = stats.foreign;
	result->refills = stats.refills;
	result->outside = stats.levels[0].granted_bytes;
	result->open = stats.open_chunks;
	result->not_free = stats.chunk_bytes - free_bytes;
}

void runtime_arenas_free_all(void)
{
	struct region_arena *behind, *next;
	struct hab_region region;

	for (behind = in_use.next; behind != &in_use; behind = next) {
		next = behind->next;
		region = behind->region;
		usage.freed++;
		hab_region_close(&region);
	}
	in_use.next = &in_use;
	in_use.previous = &in_use;
}
