// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Which backend a heap gets.
 *
 * The hard case is falling back: only for reasons that the caller cannot help (no
 * module, no permission, an older module, others have all the heaps or descriptors), never
 * for a wrong configuration, which must fail the same way on every machine.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "lib/telemetry/events.h"
#include "lib/alloc/heap.h"
#include "lib/rseq/rseq.h"

/* Reasons that are the machine's, not the configuration's. */
static bool may_fall_back(int err)
{
	return err == -ENOENT || err == -ENODEV || err == -ENXIO || err == -EACCES ||
	       err == -EPERM || err == -EOPNOTSUPP || err == -ENOSPC || err == -EMFILE ||
	       err == -ENFILE;
}

static int open_process(struct hab_heap *heap, const char *why)
{
	int err;

	heap->backend = &hab_process_backend;
	err = heap->backend->open(heap);
	if (err)
		return err;
	if (!heap->sections)
		snprintf(
			heap->reason, sizeof(heap->reason),
			"%.160s; no restartable sequences here (%.80s), so the heap serves each chunk under a lock",
			why, hab_rseq_why_not());
	else
		snprintf(
			heap->reason, sizeof(heap->reason),
			"%.160s; chunks are taken by restartable sequences%s", why,
			hab_process_collects(heap) ?
				"" :
				", but membarrier() is refused: what CPUs' buffers have left when the heap is full stays theirs");
	return 0;
}

/* What a backend may point elsewhere. */
static void listen_to_nobody(struct hab_heap *heap)
{
	heap->listeners = &hab_events_nobody;
	heap->default_interval = &hab_events_interval;
}

int hab_heap_open(struct hab_heap *heap)
{
	char why[sizeof(heap->reason)];
	int err;

	listen_to_nobody(heap);
	if (heap->flags & (HAB_HEAP_TOLERANT | HAB_HEAP_TOLERANT_RSEQ)) {
		heap->backend = &hab_tolerant_backend;
		return heap->backend->open(heap);
	}
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
			  struct hab_ioc_refill *refill)
{
	(void)heap, (void)thread, (void)refill;
	return -ENOMEM;
}

static int nothing_give_back(struct hab_heap *heap, uint64_t offset, uint64_t bytes)
{
	(void)heap, (void)offset, (void)bytes;
	return 0;
}

static int nothing_reset(struct hab_heap *heap)
{
	(void)heap;
	return 0;
}

static int nothing_stats(struct hab_heap *heap, struct hab_ioc_stats *stats)
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
	.give_back = nothing_give_back,
	.reset = nothing_reset,
	.stats = nothing_stats,
};

void hab_heap_open_nothing(struct hab_heap *heap)
{
	heap->backend = &nothing_backend;
	heap->backend_data = NULL;
	heap->nr_cpus = 0;
	heap->arena = NULL;
	listen_to_nobody(heap);
}
