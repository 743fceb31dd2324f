// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Samples of a thread's allocations, at random distances in bytes (wire/sampling.h).
 *
 * A handler may allocate, though it runs inside an allocation: meanwhile the thread is not sampled,
 * and the handler may use the TLAB.
 */
#include <errno.h>
#include <stdlib.h>

#include "lib/telemetry/heap_channel.h"
#include "lib/telemetry/sampler.h"
#include "lib/telemetry/usdt_objects.h"

/*
 * So many bytes of a thread after it has drawn or looked, the sampler looks again. On a channel the
 * look ends the windows of the interval; with the module the kernel does.
 */
static uint64_t look_bytes(const struct hab_thread *thread)
{
	return hab_heap_channel_has(thread->heap) ? 512ull << 10 : 4ull << 20;
}

/* Tests break the rule of draws here. */
#ifndef HAB_INJECT_DRAW
#define HAB_INJECT_DRAW(thread, sampling) false
#endif

static void draw(struct hab_thread *thread, struct hab_sampling *sampling)
{
	hab_sampling_draw(sampling, hab_sampler_interval(thread->heap), &thread->random);
	thread->pass_end = 0;
}

static bool is_on(struct hab_thread *thread, struct hab_sampling *sampling)
{
	const struct hab_heap *heap = thread->heap;
	bool on = !thread->sampling && (__atomic_load_n(&heap->sample_handler, __ATOMIC_ACQUIRE) ||
					hab_event_has_listeners(heap, HAB_EVENT_SAMPLE));

	if (on && !sampling->on) {
		draw(thread, sampling);
		hab_sampling_set_since(sampling, 0);
	}
	if (!thread->sampling)
		sampling->on = on;
	return on;
}

/* Draws anew if the interval has changed. For callers that keep hab_sampling_draw()'s rule. */
static void follow_interval(struct hab_thread *thread, struct hab_sampling *sampling)
{
	if (sampling->on && sampling->interval != hab_sampler_interval(thread->heap))
		draw(thread, sampling);
}

static void take_sample(struct hab_thread *thread, struct hab_sampling *sampling, void *address,
			size_t size, size_t counted)
{
	struct hab_heap *heap = thread->heap;
	struct hab_sample sample = { .address = address,
				     .size = size,
				     .weight = hab_sampling_since(sampling) + counted };
	struct hab_ioc_report report = { .kind = HAB_EVENT_SAMPLE,
					 .bytes = sample.weight,
					 .chunk_bytes = counted,
					 .object_bytes = size,
					 .interval = sampling->interval };
	bool in_region = sampling != &thread->objects && sampling != &thread->chunks;
	uintptr_t entry = thread->entry;
	const struct hab_sample_handler *handler;

	hab_sampling_set_since(sampling, 0);
	/* The handler may allocate, and its allocations are not counted. */
	thread->sampling = true;
	handler = __atomic_load_n(&heap->sample_handler, __ATOMIC_ACQUIRE);
	if (handler)
		handler->call(&sample, handler->context);
	/* Its allocations have others. */
	thread->entry = entry;
	if (hab_event_has_listeners(heap, HAB_EVENT_SAMPLE)) {
		hab_event_report(thread, &report);
		hab_usdt_object(heap, address, size,
				hab_sampling_stands_for(counted, report.interval), in_region);
		hab_heap_channel_offer(heap, report.interval);
	}
	thread->sampling = false;
	/* The report may have changed the interval. */
	draw(thread, sampling);
}

/* Returns true if there was a sample. */
static bool allocated(struct hab_thread *thread, struct hab_sampling *sampling, void *address,
		      size_t size, size_t counted)
{
	if (!is_on(thread, sampling))
		return false;
	hab_heap_channel_look(thread->heap, thread->random);
	if (HAB_INJECT_DRAW(thread, sampling))
		follow_interval(thread, sampling);
	if (counted >= hab_sampling_until(sampling)) {
		take_sample(thread, sampling, address, size, counted);
		return true;
	}
	hab_sampling_count(sampling, counted);
	return false;
}

/* --- objects -------------------------------------------------------------------------- */

uintptr_t hab_sampler_end(struct hab_thread *thread, struct hab_sampling *sampling, uintptr_t top,
			  uintptr_t end)
{
	uint64_t until, below;

	if (!is_on(thread, sampling))
		return end;
	/* An object that ends here does not reach the sample point. */
	until = hab_sampling_until(sampling);
	below = until ? (until - 1) & ~15ull : 0;
	return end - top > below ? top + below : end;
}

void hab_sampler_open(struct hab_thread *thread, uintptr_t top)
{
	uintptr_t end = hab_sampler_end(thread, &thread->objects, top, thread->end);

	thread->counted = top;
	hab_tlab_open(thread->tlab, top, end);
}

void hab_sampler_allocated(struct hab_thread *thread, void *address, size_t size, size_t counted)
{
	struct hab_sampling *objects = &thread->objects;
	bool sampled = allocated(thread, objects, address, size, counted);

	thread->pass_end = 0;
	if (!objects->on || thread->sampling)
		return;
	/* hab_sampler_passes() has asked for the rest of the TLAB, too. */
	if (sampled || objects->counted + hab_thread_left(thread) >= thread->look_at) {
		follow_interval(thread, objects);
		thread->look_at = objects->counted + look_bytes(thread);
	}
	thread->pass_end = min(objects->counted + hab_sampling_until(objects), thread->look_at);
}

/* A handler that allocated has opened the TLAB beyond the next sample of objects. */
static void reopen_tlab(struct hab_thread *thread)
{
	if (!thread->end || !thread->objects.on)
		return;
	hab_sampler_count(thread);
	hab_sampler_open(thread, hab_thread_top(thread));
}

bool hab_sampler_region_allocated(struct hab_thread *thread, struct hab_sampling *sampling,
				  uint64_t before, void *address, size_t size, size_t counted)
{
	bool counts = sampling->on, sampled;

	if (!is_on(thread, sampling))
		return false;
	is_on(thread, &thread->objects);
	if (counts)
		hab_sampling_count(sampling, before);
	hab_sampling_set_since(sampling,
			       hab_sampling_since(&thread->objects) + (counts ? before : 0));
	sampled = allocated(thread, sampling, address, size, counted);
	/* This is the begin of a chunk, or the object has one of its own. */
	if (!sampled && !thread->sampling)
		follow_interval(thread, sampling);
	hab_sampling_set_since(&thread->objects, hab_sampling_since(sampling));
	reopen_tlab(thread);
	return sampled;
}

void hab_sampler_region_closed(struct hab_thread *thread, const struct hab_sampling *sampling,
			       uint64_t bytes)
{
	if (!sampling->on || !is_on(thread, &thread->objects))
		return;
	thread->objects.last -= bytes;
	reopen_tlab(thread);
}

/* --- chunks of hab_chunk_take() ------------------------------------------------------- */

static uint64_t counted_chunk_bytes(const struct hab_thread *thread)
{
	return thread->chunk_bytes_set - thread->chunk_bytes_left;
}

static void open_chunks(struct hab_thread *thread)
{
	const struct hab_sampling *chunks = &thread->chunks;

	thread->chunk_bytes_set = chunks->on ? (int64_t)hab_sampling_until(chunks) - 1 :
					       (int64_t)look_bytes(thread);
	thread->chunk_bytes_left = thread->chunk_bytes_set;
}

void hab_sampler_leave(struct hab_thread *thread)
{
	uint64_t bytes = 0;

	if (thread->objects.on) {
		hab_sampler_count(thread);
		bytes = hab_sampling_since(&thread->objects);
		hab_sampling_set_since(&thread->objects, 0);
	}
	if (thread->chunks.on) {
		hab_sampling_count(&thread->chunks, counted_chunk_bytes(thread));
		open_chunks(thread);
		bytes += hab_sampling_since(&thread->chunks);
		hab_sampling_set_since(&thread->chunks, 0);
	}
	hab_heap_channel_count(thread->heap, bytes);
}

void hab_sampler_chunk(struct hab_thread *thread, const struct hab_chunk *chunk)
{
	if (thread->chunks.on)
		hab_sampling_count(&thread->chunks, counted_chunk_bytes(thread) - chunk->size);
	allocated(thread, &thread->chunks, chunk->base, chunk->size, chunk->size);
	open_chunks(thread);
	reopen_tlab(thread);
}

void hab_sampler_look(struct hab_thread *thread)
{
	if (thread->chunks.on)
		hab_sampling_count(&thread->chunks, counted_chunk_bytes(thread));
	if (is_on(thread, &thread->chunks))
		follow_interval(thread, &thread->chunks);
	open_chunks(thread);
}

/* --- settings ------------------------------------------------------------------------- */

int hab_set_sampling_interval(struct hab_heap *heap, int64_t mean_bytes)
{
	if (mean_bytes < 0)
		return -EINVAL;
	if ((uint64_t)mean_bytes > HAB_SAMPLING_INTERVAL_MAX)
		mean_bytes = HAB_SAMPLING_INTERVAL_MAX;
	__atomic_store_n(&heap->sampling_interval, mean_bytes, __ATOMIC_RELAXED);
	return 0;
}

int hab_set_sample_handler(struct hab_heap *heap, hab_sample_fn handler, void *context)
{
	struct hab_sample_handler *one, *all;

	all = __atomic_load_n(&heap->sample_handlers, __ATOMIC_ACQUIRE);
	for (one = all; one && (one->call != handler || one->context != context); one = one->next)
		;
	if (handler && !one) {
		one = malloc(sizeof(*one));
		if (!one)
			return -ENOMEM;
		*one = (struct hab_sample_handler){ all, handler, context };
		while (!__atomic_compare_exchange_n(&heap->sample_handlers, &one->next, one, false,
						    __ATOMIC_RELEASE, __ATOMIC_RELAXED))
			;
	}
	__atomic_store_n(&heap->sample_handler, handler ? one : NULL, __ATOMIC_RELEASE);
	return 0;
}

void hab_sampler_free_handlers(struct hab_heap *heap)
{
	struct hab_sample_handler *one, *next;

	for (one = heap->sample_handlers; one; one = next) {
		next = one->next;
		free(one);
	}
}
