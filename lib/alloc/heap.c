// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Heaps: their life, reset and statistics.
 *
 * The hard case is the counters of threads: each writes its own without a lock. They
 * are exact for whoever has quiesced the heap, and a moment old for others.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/backend/arena.h"
#include "lib/alloc/config.h"
#include "lib/alloc/fork.h"
#include "lib/alloc/registry.h"
#include "lib/alloc/sizing.h"
#include "lib/alloc/thread.h"
#include "lib/telemetry/usdt.h"

int hab_heap_create(struct hab_heap **result, const struct hab_heap_config *config)
{
	struct hab_heap *heap;
	int err;

	if (!result)
		return -EINVAL;
	*result = NULL;
	heap = aligned_alloc(64, sizeof(*heap));
	if (!heap)
		return -ENOMEM;
	memset(heap, 0, sizeof(*heap));
	err = hab_config_apply(heap, config);
	if (err)
		goto free_heap;
	err = hab_fork_prepare_handlers();
	if (err)
		goto free_heap;
	err = hab_heap_open(heap);
	if (err)
		goto free_heap;
	err = hab_thread_add_heap(heap);
	if (err)
		goto close_backend;
	hab_registry_lock();
	hab_registry_add(heap);
	hab_registry_unlock();
	*result = heap;
	return 0;

close_backend:
	heap->backend->close(heap);
free_heap:
	free(heap);
	return err;
}

void hab_heap_destroy(struct hab_heap *heap)
{
	if (!heap)
		return;
	hab_registry_lock();
	hab_registry_remove(heap);
	hab_thread_remove_heap(heap);
	hab_registry_unlock();
	hab_usdt_free_objects(heap);
	heap->backend->close(heap);
	hab_arena_unmap_inherited(heap);
	free(heap);
}

int hab_heap_reset(struct hab_heap *heap)
{
	struct hab_thread *thread;
	int err;

	hab_registry_lock();
	for (thread = heap->threads; thread; thread = thread->next)
		hab_thread_retire(thread);
	hab_sizing_collect(heap);
	hab_usdt_free_objects(heap);
	err = heap->backend->reset(heap);
	if (!err)
		heap->resets++;
	hab_registry_unlock();
	return err;
}

const char *hab_heap_backend(const struct hab_heap *heap)
{
	return heap->backend->name;
}

const char *hab_heap_backend_reason(const struct hab_heap *heap)
{
	return heap->reason;
}

static void add_thread(struct hab_heap_stats *stats, const struct hab_counters *counters)
{
	stats->allocated_bytes += counters->allocated_bytes;
	stats->chunks += counters->chunks;
	stats->chunk_bytes += counters->chunk_bytes;
	stats->foreign += counters->foreign;
	stats->verified += counters->verified;
	stats->neighbours += counters->neighbours;
	stats->restarts += counters->restarts;
	stats->conflicts += counters->conflicts;
	stats->tlab_refills += counters->tlab_refills;
	stats->outside_allocations += counters->outside_allocations;
	stats->tlab_waste_bytes += counters->tlab_waste_bytes;
	stats->refills += counters->refills;
	stats->refill_bytes += counters->refill_bytes;
}

int hab_heap_stats(struct hab_heap *heap, struct hab_heap_stats *stats)
{
	struct hab_ioc_stats books = { .size = sizeof(books) };
	const struct hab_thread *thread;
	int l, err;

	memset(stats, 0, sizeof(*stats));
	hab_registry_lock();
	add_thread(stats, &heap->gone);
	for (thread = heap->threads; thread; thread = thread->next) {
		add_thread(stats, &thread->counters);
		if (thread->end)
			stats->allocated_bytes += hab_thread_top(thread) - thread->start;
	}
	stats->resets = heap->resets;
	err = heap->backend->stats(heap, &books);
	hab_registry_unlock();
	if (err)
		return err;
	stats->book_refills = books.refills;
	stats->book_refill_bytes = books.refill_bytes;
	stats->returned_bytes = books.returned_bytes;
	stats->arena_bytes = heap->arena_bytes;
	stats->nr_levels = heap->nr_levels;
	for (l = 0; l <= heap->nr_levels; l++) {
		stats->levels[l].refills = books.levels[l].refills;
		stats->levels[l].granted_bytes = books.levels[l].granted_bytes;
		stats->levels[l].waste_bytes = books.levels[l].waste_bytes;
		stats->levels[l].free_bytes = books.levels[l].free_bytes;
	}
	return 0;
}
