// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Heaps: creation, destruction, reset and statistics.
 *
 * Each thread writes its own counters without a lock. Their sum is exact while the heap is quiet,
 * and a moment old otherwise.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/arithmetic.h"
#include "lib/alloc/chunk.h"
#include "lib/alloc/config.h"
#include "lib/heap.h"
#include "lib/alloc/lists.h"
#include "lib/alloc/loaded.h"
#include "lib/alloc/registry.h"
#include "lib/alloc/sizing.h"
#include "lib/alloc/trim.h"
#include "lib/thread.h"
#include "lib/backend/arena.h"
#include "lib/backend/backend.h"
#include "lib/telemetry/heap_channel.h"
#include "lib/telemetry/sampler.h"
#include "lib/telemetry/usdt_objects.h"

#define STATS_SIZE_0_2 496 /* three words were reserved at the end */

static void apply_settings(struct hab_heap *heap, const struct hab_settings *settings)
{
	heap->arena_bytes = settings->arena_bytes;
	heap->nr_levels = settings->nr_levels;
	memcpy(heap->levels, settings->levels, sizeof(heap->levels));
	memcpy(heap->level_names, settings->level_names, sizeof(heap->level_names));
	memcpy(heap->name, settings->name, sizeof(heap->name));
	heap->flags = settings->flags;
	heap->cids = settings->cids;
	heap->tlab_mode = settings->tlab_mode;
	heap->tlab_bytes = settings->tlab_bytes;
	heap->tlab_limit = settings->tlab_limit;
	heap->alignment = settings->alignment;
	heap->largest_in_tlab = settings->tlab_mode == HAB_TLABS_AUTO ? HAB_TLAB_DEFAULT : 0;
	heap->verify = settings->flags & HAB_HEAP_VERIFY;
	heap->lowest_bytes = hab_heap_lowest(heap)->bytes;
	heap->sampling_interval = -1;
}

int hab_heap_create_on(struct hab_heap **result, const struct hab_heap_config *config,
		       const struct hab_backend *backend)
{
	struct hab_settings settings;
	struct hab_heap *heap;
	int err;

	if (!result)
		return -EINVAL;
	*result = NULL;
	err = hab_config_read(&settings, config);
	if (!err)
		err = hab_loaded_keep();
	if (!err)
		err = hab_registry_init();
	if (err)
		return err;
	hab_registry_notice_child();
	heap = aligned_alloc(64, sizeof(*heap));
	if (!heap)
		return -ENOMEM;
	memset(heap, 0, sizeof(*heap));
	apply_settings(heap, &settings);
	err = hab_backend_open(heap, backend);
	if (err)
		goto free_heap;
	err = hab_lists_create(heap);
	if (err)
		goto close_backend;
	hab_take_choose(heap);
	heap->now = hab_trim_now();
	err = hab_thread_add_heap(heap);
	if (err)
		goto destroy_lists;
	hab_heap_channel_find_preload();
	hab_thread_lock();
	hab_registry_add_locked(heap);
	if (hab_heap_channel_has(heap))
		hab_heap_channel_connect();
	hab_thread_unlock();
	*result = heap;
	return 0;

destroy_lists:
	hab_lists_destroy(heap);
close_backend:
	heap->backend->close(heap);
free_heap:
	free(heap);
	return err;
}

int hab_heap_create(struct hab_heap **heap, const struct hab_heap_config *config)
{
	return hab_heap_create_on(heap, config, NULL);
}

void hab_heap_destroy(struct hab_heap *heap)
{
	if (!heap)
		return;
	hab_registry_notice_child();
	/* The thread that trims may use the heap until now. */
	hab_collect_lock();
	hab_thread_lock();
	hab_registry_remove_locked(heap);
	hab_thread_remove_heap_locked(heap);
	hab_thread_unlock();
	hab_collect_unlock();
	hab_usdt_free_objects(heap);
	hab_sampler_free_handlers(heap);
	hab_lists_destroy(heap);
	heap->backend->close(heap);
	hab_arena_unmap_inherited(heap);
	free(heap);
}

/* Bytes from the beginning of the arena that the books have handed out, or more. */
static uint64_t used_bytes(struct hab_heap *heap)
{
	struct hab_ioc_stats books = { .size = sizeof(books) };
	uint64_t bytes;

	if ((heap->flags & HAB_HEAP_NO_TRIM) || heap->backend->stats(heap, &books))
		return 0;
	bytes = hab_add_saturated(books.levels[0].granted_bytes, books.levels[1].granted_bytes);
	return min(bytes, heap->arena_bytes);
}

int hab_heap_reset(struct hab_heap *heap)
{
	struct hab_thread *thread;
	uint64_t used, from = 0, to = 0;
	int err;

	hab_registry_notice_child();
	hab_collect_lock();
	hab_thread_lock();
	for (thread = heap->threads; thread; thread = thread->next) {
		/* Else these bytes were in no sample's distance. */
		hab_sampler_count(thread);
		hab_thread_retire(thread);
	}
	hab_sizing_collect(heap);
	hab_usdt_free_objects(heap);
	used = used_bytes(heap);
	err = heap->backend->reset(heap);
	if (!err) {
		hab_lists_reset_locked(heap);
		if (used)
			to = hab_trim_reset_locked(heap, used, &from);
		heap->lives++;
		heap->resets++;
	}
	hab_thread_unlock();
	hab_collect_unlock();
	hab_trim_range(heap, from, to);
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
	int l;

	stats->allocated_bytes += counters->allocated_bytes;
	stats->chunks += counters->chunks;
	stats->chunk_bytes += counters->chunk_bytes;
	stats->foreign += counters->foreign;
	stats->verified += counters->verified;
	stats->restarts += counters->restarts;
	stats->conflicts += counters->conflicts;
	stats->tlab_refills += counters->tlab_refills;
	stats->outside_allocations += counters->outside_allocations;
	stats->tlab_waste_bytes += counters->tlab_waste_bytes;
	stats->refills += counters->refills;
	stats->refill_bytes += counters->refill_bytes;
	stats->region_bytes += counters->region_bytes;
	stats->region_chunks += counters->region_chunks;
	stats->listed_chunks += counters->listed_chunks;
	stats->open_chunks += counters->open_chunks;
	for (l = 0; l < HAB_STATS_LEVELS; l++)
		stats->free_chunk_bytes[l] += counters->free_bytes[l];
}

static void add_books(struct hab_heap_stats *stats, const struct hab_heap *heap,
		      const struct hab_ioc_stats *books)
{
	int l;

	stats->book_refills = books->refills;
	stats->book_refill_bytes = books->refill_bytes;
	stats->returned_bytes = books->returned_bytes;
	for (l = 0; l <= heap->nr_levels; l++) {
		strcpy(stats->levels[l].name, l ? heap->level_names[l - 1] : "heap");
		stats->levels[l].refills = books->levels[l].refills;
		stats->levels[l].granted_bytes = books->levels[l].granted_bytes;
		stats->levels[l].waste_bytes = books->levels[l].waste_bytes;
		stats->levels[l].free_bytes = books->levels[l].free_bytes;
	}
}

/* Of its TLAB, which the thread may replace meanwhile: then 0, a moment before or after. */
static uint64_t used_of(const struct hab_thread *thread)
{
	uintptr_t start = __atomic_load_n(&thread->start, __ATOMIC_ACQUIRE);
	uintptr_t top = hab_thread_top(thread);
	uintptr_t end = __atomic_load_n(&thread->end, __ATOMIC_ACQUIRE);

	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	if (start != __atomic_load_n(&thread->start, __ATOMIC_RELAXED))
		return 0;
	return start && start <= top && top <= end ? top - start : 0;
}

int hab_heap_stats_sized(struct hab_heap *heap, struct hab_heap_stats *result, size_t size)
{
	struct hab_ioc_stats books = { .size = sizeof(books) };
	struct hab_heap_stats stats = { .arena_bytes = heap->arena_bytes,
					.nr_levels = heap->nr_levels,
					.struct_size = min(size, sizeof(stats)) };
	const struct hab_thread *thread;
	int err;

	hab_registry_notice_child();
	hab_thread_lock();
	add_thread(&stats, &heap->exited);
	for (thread = heap->threads; thread; thread = thread->next) {
		add_thread(&stats, &thread->counters);
		stats.allocated_bytes += used_of(thread);
	}
	hab_lists_stats_locked(heap, &stats);
	stats.resets = heap->resets;
	err = heap->backend->stats(heap, &books);
	hab_thread_unlock();
	if (!err)
		add_books(&stats, heap, &books);
	memset(result, 0, size);
	memcpy(result, &stats, stats.struct_size);
	return err;
}

#undef hab_heap_stats
int hab_heap_stats(struct hab_heap *heap, struct hab_heap_stats *stats)
{
	return hab_heap_stats_sized(heap, stats, STATS_SIZE_0_2);
}

const char *hab_version(void)
{
	return HAB_VERSION;
}
