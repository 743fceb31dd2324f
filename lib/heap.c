// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Heaps: configuration, choice of the backend, reset, statistics.
 *
 * The hard case is falling back: only for reasons that the caller cannot help
 * (no module, no permission, an older module), never for a wrong configuration,
 * which must fail the same way on every machine.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../core/hierarchy.h"
#include "fork.h"
#include "levels.h"
#include "sampler.h"
#include "thread.h"

#define HUGE_PAGE	  (2ul << 20)
#define ALL_FLAGS	  (HAB_HEAP_PROCESS | HAB_HEAP_DEVICE | HAB_HEAP_VERIFY)
#define TLAB_MIN	  256
#define FIRST_CONFIG_SIZE sizeof(struct hab_heap_config)

static const char default_levels[] = "clab=512K@cpu";

static pthread_mutex_t registry = PTHREAD_MUTEX_INITIALIZER;
static struct hab_heap *heaps;

void hab_registry_lock(void)
{
	pthread_mutex_lock(&registry);
}

void hab_registry_unlock(void)
{
	pthread_mutex_unlock(&registry);
}

struct hab_heap **hab_registry_heaps(void)
{
	return &heaps;
}

void *hab_arena_reserve(size_t bytes)
{
	size_t slack = bytes >= HUGE_PAGE ? HUGE_PAGE : 0;
	size_t page = sysconf(_SC_PAGESIZE);
	char *start, *aligned, *end;

	start = mmap(NULL, bytes + slack, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
		     -1, 0);
	if (start == MAP_FAILED || !slack)
		return start;
	aligned = start + (-(uintptr_t)start & (HUGE_PAGE - 1));
	end = aligned + ((bytes + page - 1) & ~(page - 1));
	if (aligned > start)
		munmap(start, aligned - start);
	if (start + bytes + slack > end)
		munmap(end, start + bytes + slack - end);
	return aligned;
}

void hab_heap_config_init(struct hab_heap_config *config)
{
	memset(config, 0, sizeof(*config));
	config->struct_size = sizeof(*config);
	config->arena_bytes = 1ul << 30;
	config->tlab_bytes = 32 << 10;
}

/* The caller's struct, of whatever version, as this version's. */
static int read_config(struct hab_heap_config *config, const struct hab_heap_config *given)
{
	const char *tail = (const char *)given;
	size_t i;

	hab_heap_config_init(config);
	if (!given)
		return 0;
	if (given->struct_size < FIRST_CONFIG_SIZE)
		return -EINVAL;
	for (i = sizeof(*config); i < given->struct_size; i++) {
		if (tail[i])
			return -E2BIG;
	}
	memcpy(config, given, sizeof(*config));
	return 0;
}

static int apply_environment(struct hab_heap_config *config)
{
	const char *levels = getenv("HAB_LEVELS");
	const char *tlab = getenv("HAB_TLAB");
	const char *backend = getenv("HAB_BACKEND");
	const char *verify = getenv("HAB_VERIFY");
	const char *end;
	uint64_t bytes;

	if (levels)
		config->levels = levels;
	if (tlab) {
		end = hab_size_parse(tlab, &bytes);
		if (!end || *end)
			return -EINVAL;
		config->tlab_bytes = bytes;
	}
	if (backend) {
		config->flags &= ~(HAB_HEAP_DEVICE | HAB_HEAP_PROCESS);
		if (!strcmp(backend, "device"))
			config->flags |= HAB_HEAP_DEVICE;
		else if (!strcmp(backend, "process"))
			config->flags |= HAB_HEAP_PROCESS;
		else
			return -EINVAL;
	}
	if (verify && *verify == '1')
		config->flags |= HAB_HEAP_VERIFY;
	return 0;
}

static int check_flags(const struct hab_heap_config *config)
{
	uint32_t both = HAB_HEAP_PROCESS | HAB_HEAP_DEVICE;

	if ((config->flags & ~ALL_FLAGS) || (config->flags & both) == both || config->reserved)
		return -EINVAL;
	return 0;
}

static int set_name(struct hab_heap *heap, const char *name)
{
	size_t i;

	if (!name)
		name = "heap";
	if (strlen(name) >= sizeof(heap->name))
		return -EINVAL;
	for (i = 0; name[i]; i++) {
		if (name[i] < ' ' || name[i] > '~')
			return -EINVAL;
	}
	strcpy(heap->name, name);
	return 0;
}

static int configure(struct hab_heap *heap, const struct hab_heap_config *given)
{
	struct hab_heap_config config;
	size_t page = sysconf(_SC_PAGESIZE);
	int err;

	err = read_config(&config, given);
	if (!err)
		err = apply_environment(&config);
	if (!err)
		err = check_flags(&config);
	if (!err)
		err = set_name(heap, config.name);
	if (err)
		return err;
	heap->nr_levels =
		hab_levels_parse(config.levels ? config.levels : default_levels, heap->levels);
	if (heap->nr_levels < 0)
		return heap->nr_levels;
	if (config.arena_bytes > HAB_ARENA_MAX)
		return -ENOMEM;
	heap->arena_bytes = (config.arena_bytes + page - 1) & ~(page - 1);
	err = hab_hierarchy_check(heap->arena_bytes, heap->nr_levels, heap->levels);
	if (err)
		return err;
	if (config.tlab_bytes < TLAB_MIN ||
	    config.tlab_bytes > heap->levels[heap->nr_levels - 1].bytes)
		return -EINVAL;
	heap->tlab_bytes = (config.tlab_bytes + HAB_GRANULE - 1) & ~(HAB_GRANULE - 1);
	heap->flags = config.flags;
	heap->verify = config.flags & HAB_HEAP_VERIFY;
	heap->shared = heap->levels[heap->nr_levels - 1].kind != HAB_DOMAIN_CPU;
	heap->sampling_interval = HAB_SAMPLING_INTERVAL_DEFAULT;
	return 0;
}

/* Reasons that are the machine's, not the configuration's. */
static bool may_fall_back(int err)
{
	return err == -ENOENT || err == -ENODEV || err == -ENXIO || err == -EACCES ||
	       err == -EPERM || err == -EOPNOTSUPP;
}

static int open_process(struct hab_heap *heap, const char *why)
{
	int err;

	heap->backend = &hab_process_backend;
	err = heap->backend->open(heap);
	if (err)
		return err;
	snprintf(
		heap->reason, sizeof(heap->reason), "%.160s; %s", why,
		heap->sections ?
			"chunks are taken by restartable sequences" :
			"no restartable sequences here, so the heap serves each chunk under a lock");
	return 0;
}

int hab_heap_open(struct hab_heap *heap)
{
	char why[sizeof(heap->reason)];
	int err;

	if (heap->flags & HAB_HEAP_PROCESS)
		return open_process(heap, "asked for");
	heap->backend = &hab_device_backend;
	err = heap->backend->open(heap);
	if (!err || (heap->flags & HAB_HEAP_DEVICE) || !may_fall_back(err))
		return err;
	memcpy(why, heap->reason, sizeof(why));
	return open_process(heap, why);
}

static int nothing_refill(struct hab_heap *heap, struct hab_thread *thread,
			  struct hab_refill *refill)
{
	(void)heap, (void)thread, (void)refill;
	return -ENOMEM;
}

static int nothing_reset(struct hab_heap *heap)
{
	(void)heap;
	return 0;
}

static int nothing_stats(struct hab_heap *heap, struct hab_stats *stats)
{
	(void)heap, (void)stats;
	return 0;
}

static void nothing_close(struct hab_heap *heap)
{
	(void)heap;
}

static const struct hab_backend nothing_backend = {
	.name = "none",
	.close = nothing_close,
	.refill = nothing_refill,
	.reset = nothing_reset,
	.stats = nothing_stats,
};

void hab_heap_open_nothing(struct hab_heap *heap)
{
	heap->backend = &nothing_backend;
	heap->backend_data = NULL;
	heap->nr_cpus = 0;
	heap->arena = NULL;
}

struct hab_inherited {
	void *arena;
	size_t bytes;
	struct hab_inherited *next;
};

void hab_arena_inherit(struct hab_heap *heap)
{
	struct hab_inherited *inherited = malloc(sizeof(*inherited));

	/* Without the note the arena just stays until the process ends. */
	if (!inherited)
		return;
	inherited->arena = heap->arena;
	inherited->bytes = heap->arena_bytes;
	inherited->next = heap->inherited;
	heap->inherited = inherited;
}

static void unmap_inherited(struct hab_heap *heap)
{
	struct hab_inherited *inherited;

	while ((inherited = heap->inherited)) {
		heap->inherited = inherited->next;
		munmap(inherited->arena, inherited->bytes);
		free(inherited);
	}
}

int hab_heap_create(struct hab_heap **result, const struct hab_heap_config *config)
{
	struct hab_heap *heap;
	int err;

	if (!result)
		return -EINVAL;
	*result = NULL;
	heap = calloc(1, sizeof(*heap));
	if (!heap)
		return -ENOMEM;
	err = configure(heap, config);
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
	heap->next = heaps;
	heaps = heap;
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
	struct hab_heap **link;

	if (!heap)
		return;
	hab_registry_lock();
	for (link = &heaps; *link != heap; link = &(*link)->next)
		;
	*link = heap->next;
	hab_thread_remove_heap(heap);
	hab_registry_unlock();
	heap->backend->close(heap);
	unmap_inherited(heap);
	free(heap);
}

int hab_heap_reset(struct hab_heap *heap)
{
	struct hab_thread *thread;
	int err;

	hab_registry_lock();
	for (thread = heap->threads; thread; thread = thread->next)
		hab_thread_retire(thread);
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
	struct hab_stats books = { .size = sizeof(books) };
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
