// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Which backend a heap gets.
 *
 * A heap falls back from the device to the process only for reasons of the machine: no module, no
 * permission, an older module, too many heaps or descriptors. A wrong configuration fails in the
 * same way on every machine.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "lib/backend/arena.h"
#include "lib/backend/backend.h"
#include "lib/heap.h"
#include "lib/rseq/rseq.h"
#include "lib/telemetry/heap_channel.h"

static bool may_fall_back(int err)
{
	return err == -ENOENT || err == -ENODEV || err == -ENXIO || err == -EACCES ||
	       err == -EPERM || err == -EOPNOTSUPP || err == -ENOSPC || err == -EMFILE ||
	       err == -ENFILE;
}

/* The module's words are of CPUs: it cannot interrupt sections of a cid that run elsewhere. */
static enum hab_word_of kind_of_words(const struct hab_heap *heap)
{
	if (hab_heap_lowest(heap)->kind != HAB_DOMAIN_CPU)
		return HAB_WORD_SHARED;
	return heap->cids && heap->backend == &hab_process_backend && hab_rseq_has_cids() ?
		       HAB_WORD_OF_CID :
		       HAB_WORD_OF_CPU;
}

static int open_backend(struct hab_heap *heap, const struct hab_backend *backend)
{
	heap->backend = backend;
	heap->word_of = kind_of_words(heap);
	/* The device backend points these to the fields that the kernel writes. */
	heap->listeners = &hab_heap_channel_listeners;
	/* A channel keeps each sample: not 0 as long as there is one. */
	heap->next_is_kept = &hab_heap_channel_listeners;
	heap->default_interval = &hab_heap_channel_interval;
	return backend->open(heap);
}

static int open_process(struct hab_heap *heap, const char *why)
{
	int err = open_backend(heap, &hab_process_backend);

	if (err)
		return err;
	if (!heap->sections)
		snprintf(
			heap->reason, sizeof(heap->reason),
			"%.160s; no restartable sequences here (%.200s), so the heap serves each chunk under a lock",
			why, hab_rseq_reason());
	else
		snprintf(
			heap->reason, sizeof(heap->reason),
			"%.160s; chunks are taken by restartable sequences (%.90s)%s", why,
			hab_rseq_judged(),
			hab_process_collects(heap) ?
				"" :
				", but membarrier() is refused: a full heap cannot use what CPUs' buffers have left");
	return 0;
}

static int open_chosen(struct hab_heap *heap, const struct hab_backend *backend)
{
	char why[sizeof(heap->reason)];
	int err;

	if (backend)
		return open_backend(heap, backend);
	if (heap->flags & HAB_HEAP_PROCESS)
		return open_process(heap, "chosen by the program or by HAB_BACKEND");
	err = open_backend(heap, &hab_device_backend);
	if (!err || (heap->flags & HAB_HEAP_DEVICE) || !may_fall_back(err))
		return err;
	memcpy(why, heap->reason, sizeof(why));
	return open_process(heap, why);
}

static void explain_cpus(struct hab_heap *heap)
{
	size_t length = strlen(heap->reason);

	snprintf(heap->reason + length, sizeof(heap->reason) - length,
		 "; the domain cid is cpu here, because %s",
		 hab_rseq_has_cids() ? "only the process backend has it" :
				       "the kernel has no concurrency ids before Linux 6.3");
}

int hab_backend_open(struct hab_heap *heap, const struct hab_backend *backend)
{
	int err = open_chosen(heap, backend);

	if (err)
		return err;
	if (heap->cids && heap->word_of != HAB_WORD_OF_CID) {
		explain_cpus(heap);
		/* Nor in children, whose backend may be another: takes were chosen for CPUs. */
		heap->cids = false;
	}
	hab_arena_ask_huge_pages(heap);
	return 0;
}

static int empty_open(struct hab_heap *heap)
{
	heap->backend_data = NULL;
	heap->nr_cpus = 0;
	heap->arena = NULL;
	return 0;
}

static int empty_refill(struct hab_heap *heap, struct hab_thread *thread,
			struct hab_ioc_refill *refill)
{
	(void)heap, (void)thread, (void)refill;
	return -ENOMEM;
}

static int empty_give_back(struct hab_heap *heap, uint64_t offset, uint64_t bytes)
{
	(void)heap, (void)offset, (void)bytes;
	return 0;
}

static int empty_reset(struct hab_heap *heap)
{
	(void)heap;
	return 0;
}

static int empty_stats(struct hab_heap *heap, struct hab_ioc_stats *stats)
{
	(void)heap, (void)stats;
	return 0;
}

static void empty_close(struct hab_heap *heap)
{
	(void)heap;
}

static const struct hab_backend empty_backend = {
	.name = "none",
	.open = empty_open,
	.close = empty_close,
	.refill = empty_refill,
	.give_back = empty_give_back,
	.reset = empty_reset,
	.stats = empty_stats,
	.report = hab_heap_channel_report,
};

void hab_backend_reopen(struct hab_heap *heap)
{
	if (hab_backend_open(heap, NULL))
		open_backend(heap, &empty_backend);
}
