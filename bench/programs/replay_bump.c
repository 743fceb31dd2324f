// SPDX-License-Identifier: GPL-2.0-only
/*
 * A bump arena for each thread, in pieces from mmap. A thread that has used its share of the heap
 * collects alone: nothing survives, and it starts again with its first piece. Pieces are kept, so
 * after the warm-up it never calls the kernel. It is the best possible result without shared
 * memory.
 */
#include <stdlib.h>
#include <sys/mman.h>

#include "replay_loop.h"

#define PIECE (1ul << 20)

/* An object that is too large for a piece has a mapping of its own, until the collection. */
struct large {
	struct large *next;
	size_t bytes;
};

struct arena {
	uintptr_t top;
	uintptr_t end;
	char **pieces;
	size_t piece_bytes;
	size_t nr_pieces;  /* the thread's share of the heap */
	size_t used;	   /* pieces used since the collection */
	size_t large_left; /* bytes that large objects may still use */
	struct large *large;
	uint64_t collections;
	uint64_t measured_from;	 /* collections */
	uint64_t large_consumed; /* bytes since the last collection */
	struct replay_waste from, to;
};

static int measuring;

static void *map(size_t bytes)
{
	void *memory =
		mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		replay_fail("mmap found no memory for a bump arena");
	return memory;
}

static void collect(struct replay_worker *worker, struct arena *arena)
{
	struct large *large;
	uint64_t consumed = arena->used * arena->piece_bytes + arena->large_consumed;

	while ((large = arena->large)) {
		arena->large = large->next;
		munmap(large, large->bytes);
	}
	arena->to.consumed += consumed;
	arena->to.objects = worker->object_bytes;
	arena->to.requested = worker->requested_bytes;
	arena->collections++;
	if (!__atomic_load_n(&measuring, __ATOMIC_RELAXED)) {
		arena->from = arena->to;
		arena->measured_from = arena->collections;
	}
	arena->used = 0;
	arena->top = arena->end = 0;
	arena->large_consumed = 0;
}

static void *allocate_large(struct replay_worker *worker, struct arena *arena, size_t size)
{
	size_t bytes = (size + sizeof(struct large) + REPLAY_PAGE - 1) & ~(REPLAY_PAGE - 1ul);
	struct large *large;

	if (arena->large_consumed + bytes > arena->nr_pieces * arena->piece_bytes)
		collect(worker, arena);
	large = map(bytes);
	large->next = arena->large;
	large->bytes = bytes;
	arena->large = large;
	arena->large_consumed += bytes;
	return large + 1;
}

__attribute__((noinline)) static void *allocate_slow(struct replay_worker *worker,
						     struct arena *arena, size_t size)
{
	char *piece;

	if (size > arena->piece_bytes)
		return allocate_large(worker, arena, size);
	if (arena->used == arena->nr_pieces)
		collect(worker, arena);
	if (!arena->pieces[arena->used])
		arena->pieces[arena->used] = map(arena->piece_bytes);
	piece = arena->pieces[arena->used++];
	arena->top = (uintptr_t)piece + size;
	arena->end = (uintptr_t)piece + arena->piece_bytes;
	return piece;
}

REPLAY_INLINE void *allocate(struct replay_worker *worker, size_t size)
{
	struct arena *arena = worker->data;
	uintptr_t object = arena->top;

	size = (size + 15) & ~15ul;
	if (__builtin_expect(size > arena->end - object, 0))
		return allocate_slow(worker, arena, size);
	arena->top = object + size;
	return (void *)object;
}

REPLAY_INLINE void release(struct replay_worker *worker, void *object)
{
	(void)worker;
	(void)object;
}

REPLAY_INLINE void poll(struct replay_worker *worker)
{
	(void)worker;
}

static void run(struct replay_worker *worker)
{
	size_t share = replay.options.arena_bytes / replay.options.threads;
	struct arena *arena = calloc(1, sizeof(*arena));

	share &= ~(REPLAY_PAGE - 1ul);
	if (!share)
		replay_fail("the arena is too small for %d threads", replay.options.threads);
	if (arena) {
		arena->piece_bytes = share < PIECE ? share : PIECE;
		arena->nr_pieces = share / arena->piece_bytes;
		arena->pieces = calloc(arena->nr_pieces, sizeof(*arena->pieces));
	}
	if (!arena || !arena->pieces)
		replay_fail("no memory for the tables of a bump arena");
	worker->data = arena;
	replay_run(worker, false, allocate, release, poll);
}

static void interval(void)
{
	__atomic_store_n(&measuring, 1, __ATOMIC_RELAXED);
}

/* The program ends after this, so arenas stay mapped. */
static void result(struct replay_result *result)
{
	int i;

	for (i = 0; i < replay.options.threads; i++) {
		struct arena *arena = replay.workers[i].data;

		result->waste.consumed += arena->to.consumed - arena->from.consumed;
		result->waste.objects += arena->to.objects - arena->from.objects;
		result->waste.requested += arena->to.requested - arena->from.requested;
		result->collections += arena->collections - arena->measured_from;
	}
	result->has_waste = true;
}

const struct replay_allocator replay_bump = {
	.name = "bump",
	.run = run,
	.interval = interval,
	.result = result,
};
