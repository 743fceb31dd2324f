// SPDX-License-Identifier: GPL-2.0-only
/*
 * hab: one heap for all threads, like the nursery of a runtime. Frees are ignored. When the heap is
 * used up all threads meet at a safepoint, and a reset is the collection: nothing survives.
 *
 * Waste is the part of the arena that was not objects when it was used up. Collections after the
 * warm-up count; the first of them is only the starting point.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A runtime would have the fast path in its own code. */
#define HAB_INLINE
#include "lib/hab.h"
#include "replay_loop.h"
#include "safepoint.h"
#include "tolerant.h"

/* An object that does not fit right after so many collections never will. */
#define MAX_TRIES 1000

static struct hab_heap *heap;
static struct replay_waste from, to;
static uint64_t collections, measured_from;
static struct hab_heap_stats at_interval;
static int measuring;

static uint32_t heap_flags(void)
{
	const struct replay_options *options = &replay.options;
	uint32_t flags = options->device ? HAB_HEAP_DEVICE : HAB_HEAP_PROCESS;

	return options->verify ? flags | HAB_HEAP_VERIFY : flags;
}

static void read_stats(struct hab_heap_stats *stats)
{
	int err = hab_heap_stats(heap, stats);

	if (err)
		replay_fail("hab_heap_stats: %s", strerror(-err));
}

static void add_unused(const struct hab_heap_stats *stats)
{
	uint32_t l;

	to.heap_unused += stats->levels[0].free_bytes + stats->levels[0].waste_bytes;
	for (l = 1; l <= stats->nr_levels; l++)
		to.buffer_unused += stats->levels[l].free_bytes + stats->levels[l].waste_bytes;
}

/* All threads are stopped. */
static void collect(void)
{
	struct hab_heap_stats before, after;
	int err;

	read_stats(&before);
	err = hab_heap_reset(heap);
	if (err)
		replay_fail("hab_heap_reset: %s", strerror(-err));
	read_stats(&after); /* the reset has retired all TLABs */
	add_unused(&before);
	to.consumed += after.arena_bytes;
	to.tlab_unused = after.tlab_waste_bytes;
	to.objects = to.requested = 0;
	replay_add_objects(&to);
	collections++;
	if (measuring == 1) {
		from = to;
		measured_from = collections;
		measuring = 2;
	}
	__atomic_and_fetch(&replay.attention, ~REPLAY_SAFEPOINT, __ATOMIC_RELAXED);
}

/* Per thread, so that counting is cheap. */
static __thread uint64_t samples;

static void on_sample(const struct hab_sample *sample, void *context)
{
	(void)context;
	samples += sample->weight != 0;
}

/* All pages are present before the first thread allocates, as after the first collection. */
static void touch_heap(void)
{
	struct hab_chunk chunk;
	size_t size, i;

	for (size = 1 << 20; size >= 4096; size /= 2) {
		while (!hab_chunk_take(heap, size, &chunk))
			for (i = 0; i < chunk.size; i += 4096)
				((volatile char *)chunk.base)[i] = 0;
	}
	if (hab_heap_reset(heap))
		replay_fail("hab_heap_reset after touching all memory failed");
}

static void open_heap(void)
{
	const struct replay_options *options = &replay.options;
	struct hab_heap_config config;
	int err;

	/* The library reads these itself. */
	if (options->levels)
		setenv("HAB_LEVELS", options->levels, 1);
	if (options->tlab)
		setenv("HAB_TLAB", options->tlab, 1);
	hab_heap_config_init(&config);
	config.arena_bytes = options->arena_bytes;
	config.flags = heap_flags();
	config.alignment = (uint32_t)options->align;
	if (options->tolerant == REPLAY_STRICT)
		err = hab_heap_create(&heap, &config);
	else
		err = tolerant_create(&heap, &config, options->tolerant == REPLAY_TOLERANT_RSEQ);
	if (err)
		replay_fail("no heap with levels %s and TLABs %s in an arena of %zu bytes: %s",
			    options->levels ? options->levels : "as by default",
			    options->tlab ? options->tlab : "as by default", options->arena_bytes,
			    strerror(-err));
	if (options->touch)
		touch_heap();
	if (options->sample >= 0 && (hab_set_sampling_interval(heap, options->sample) ||
				     hab_set_sample_handler(heap, on_sample, NULL)))
		replay_fail("no samples every %ld bytes", options->sample);
	safepoint_init(options->threads, collect);
}

__attribute__((noinline)) static void *allocate_slow(size_t size)
{
	void *object;
	int try;

	for (try = 0; try < MAX_TRIES; try++) {
		__atomic_or_fetch(&replay.attention, REPLAY_SAFEPOINT, __ATOMIC_RELAXED);
		safepoint_meet();
		object = hab_alloc(heap, size);
		if (object)
			return object;
		if (errno != ENOMEM)
			break;
	}
	replay_fail("hab_alloc of %zu bytes: %m; is the arena too small?", size);
}

REPLAY_INLINE void *allocate(struct replay_worker *worker, size_t size)
{
	void *object = hab_alloc(heap, size);

	(void)worker;
	if (__builtin_expect(!object, 0))
		return allocate_slow(size);
	return object;
}

REPLAY_INLINE void release(struct replay_worker *worker, void *object)
{
	(void)worker;
	(void)object;
}

REPLAY_INLINE void poll(struct replay_worker *worker)
{
	(void)worker;
	safepoint_meet();
}

static void run(struct replay_worker *worker)
{
	replay_run(worker, false, allocate, release, poll);
	safepoint_leave();
}

static void interval(void)
{
	read_stats(&at_interval);
	__atomic_store_n(&measuring, 1, __ATOMIC_RELAXED);
}

static void result(struct replay_result *result)
{
	struct hab_heap_stats stats;

	read_stats(&stats);
	result->waste.consumed = to.consumed - from.consumed;
	result->waste.objects = to.objects - from.objects;
	result->waste.requested = to.requested - from.requested;
	result->waste.tlab_unused = to.tlab_unused - from.tlab_unused;
	result->waste.buffer_unused = to.buffer_unused - from.buffer_unused;
	result->waste.heap_unused = to.heap_unused - from.heap_unused;
	result->has_waste = true;
	result->collections = collections - measured_from;
	result->foreign = stats.foreign - at_interval.foreign;
	result->chunks = stats.chunks - at_interval.chunks;
	result->restarts = stats.restarts - at_interval.restarts;
	result->tlab_refills = stats.tlab_refills - at_interval.tlab_refills;
}

const struct replay_allocator replay_hab = {
	.name = "hab",
	.open = open_heap,
	.run = run,
	.interval = interval,
	.result = result,
};
