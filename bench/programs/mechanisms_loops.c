// SPDX-License-Identifier: GPL-2.0-only
/*
 * The mechanisms: a loop for each, with a direct call in it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/hab.h"
#include "mechanisms_loops.h"
#include "operations.h"

#define OBJECT 32
#define CHUNK  64

static struct hab_heap *cpu_heap, *package_heap;

/* Buffers and TLABs so large that refills do not matter. */
static void create_heap(struct hab_heap **heap, const char *levels, size_t arena)
{
	struct hab_heap_config config;
	int err;

	hab_heap_config_init(&config);
	config.arena_bytes = arena;
	config.tlab_bytes = 64ul << 20;
	config.levels = levels;
	config.flags = HAB_HEAP_PROCESS;
	err = hab_heap_create(heap, &config);
	if (err) {
		fprintf(stderr, "mechanisms: no heap with levels \"%s\": %s.\n", levels,
			strerror(-err));
		exit(1);
	}
}

void bench_create_heaps(size_t arena)
{
	create_heap(&cpu_heap, "clab=512M@cpu", arena);
	create_heap(&package_heap, "plab=512M@package", arena);
}

#define USE(pointer) __asm__ volatile("" : : "r"(pointer) : "memory")

#define LOOP(name, call)                    \
	static void loop_##name(uint64_t n) \
	{                                   \
		while (n--)                 \
			USE(call);          \
	}

LOOP(rseq_store, bench_rseq_store(CHUNK))
LOOP(rseq_cmpxchg, bench_rseq_cmpxchg(CHUNK))
LOOP(getcpu_cmpxchg, bench_getcpu_cmpxchg(CHUNK))
LOOP(rseqcpu_cmpxchg, bench_rseqcpu_cmpxchg(CHUNK))
LOOP(global_cmpxchg, bench_global_cmpxchg(CHUNK))
LOOP(mutex, bench_mutex(CHUNK))

static void no_memory(const char *what)
{
	fprintf(stderr, "mechanisms: %s found no memory in its arena.\n", what);
	exit(1);
}

/* Both loops check for NULL, so they are the same. */
static void loop_tlab_bump(uint64_t n)
{
	void *object;

	while (n--) {
		object = bench_tlab_bump(OBJECT);
		if (__builtin_expect(!object, 0))
			no_memory("bench_tlab_bump");
		USE(object);
	}
}

static void loop_hab_alloc(uint64_t n)
{
	struct hab_heap *heap = cpu_heap;
	void *object;

	while (n--) {
		object = hab_alloc(heap, OBJECT);
		if (__builtin_expect(!object, 0))
			no_memory("hab_alloc");
		USE(object);
	}
}

static void take_chunks(struct hab_heap *heap, uint64_t n)
{
	struct hab_chunk chunk;

	while (n--) {
		if (__builtin_expect(hab_chunk_take(heap, CHUNK, &chunk), 0))
			no_memory("hab_chunk_take");
		USE(chunk.base);
	}
}

static void take_bases(struct hab_heap *heap, uint64_t n)
{
	void *base;

	while (n--) {
		base = hab_chunk_take_base(heap, CHUNK);
		if (__builtin_expect(!base, 0))
			no_memory("hab_chunk_take_base");
		USE(base);
	}
}

static void loop_clab_take(uint64_t n)
{
	take_chunks(cpu_heap, n);
}

static void loop_plab_take(uint64_t n)
{
	take_chunks(package_heap, n);
}

static void loop_clab_base(uint64_t n)
{
	take_bases(cpu_heap, n);
}

static void loop_plab_base(uint64_t n)
{
	take_bases(package_heap, n);
}

const struct bench_mechanism bench_mechanisms[BENCH_MECHANISMS] = {
	{ "tlab_bump", loop_tlab_bump, NULL },
	{ "hab_alloc", loop_hab_alloc, &cpu_heap },
	{ "clab_take", loop_clab_take, &cpu_heap },
	{ "plab_take", loop_plab_take, &package_heap },
	{ "clab_base", loop_clab_base, &cpu_heap },
	{ "plab_base", loop_plab_base, &package_heap },
	{ "rseq_store", loop_rseq_store, NULL },
	{ "rseq_cmpxchg", loop_rseq_cmpxchg, NULL },
	{ "getcpu_cmpxchg", loop_getcpu_cmpxchg, NULL },
	{ "rseqcpu_cmpxchg", loop_rseqcpu_cmpxchg, NULL },
	{ "global_cmpxchg", loop_global_cmpxchg, NULL },
	{ "mutex", loop_mutex, NULL },
};
