// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Samples of a thread's allocations, at random distances in bytes.
 *
 * The hard case is the handler: it runs inside an allocation and may allocate. Meanwhile the thread
 * is not sampled, and the handler may use the TLAB.
 */
#include <errno.h>

#include "core/logarithm.h"
#include "lib/telemetry/sampler.h"

#define LN2_Q32 2977044472ull /* ln 2 with 32 bits of fraction */

static uint64_t next_random(struct hab_thread *thread)
{
	/* xorshift64*: Marsaglia's generator, Vigna's multiplier. */
	thread->random ^= thread->random >> 12;
	thread->random ^= thread->random << 25;
	thread->random ^= thread->random >> 27;
	return thread->random * 0x2545f4914f6cdd1dull;
}

/* -ln(u) * mean, u uniform in (0, 1]. */
static uint64_t draw_distance(struct hab_thread *thread)
{
	const struct hab_heap *heap = thread->heap;
	int64_t mean = __atomic_load_n(&heap->sampling_interval, __ATOMIC_RELAXED);
	uint64_t log;

	if (mean < 0)
		mean = __atomic_load_n(heap->default_interval, __ATOMIC_RELAXED);
	if (!mean)
		return 0;
	log = hab_minus_log2((next_random(thread) >> 1) | 1);
	log = hab_mul_shift(log, LN2_Q32, 32);
	return hab_mul_shift(log, mean, HAB_LOG_BITS) + 1;
}

static bool sampler_on(struct hab_thread *thread)
{
	const struct hab_heap *heap = thread->heap;
	bool on = !thread->sampling &&
		  (__atomic_load_n(&heap->sample_handler, __ATOMIC_ACQUIRE) ||
		   (hab_event_listeners(heap) & HAB_LISTENER(HAB_EVENT_SAMPLE)));

	if (on && !thread->sampler_on) {
		thread->until_sample = draw_distance(thread);
		thread->since_sample = 0;
	}
	if (!thread->sampling)
		thread->sampler_on = on;
	return on;
}

void hab_sampler_open(struct hab_thread *thread, uintptr_t top)
{
	uintptr_t end = thread->end;
	uint64_t distance;

	if (sampler_on(thread)) {
		distance = thread->until_sample & ~15ull;
		if (end - top > distance)
			end = top + distance;
	}
	thread->counted = top;
	hab_tlab_open(thread->tlab, top, end);
}

static void count(struct hab_thread *thread, uint64_t bytes)
{
	thread->since_sample += bytes;
	thread->until_sample -= bytes < thread->until_sample ? bytes : thread->until_sample;
}

void hab_sampler_count(struct hab_thread *thread)
{
	uintptr_t top;

	if (!thread->end || !thread->sampler_on)
		return;
	top = hab_thread_top(thread);
	count(thread, top - thread->counted);
	thread->counted = top;
}

void hab_sampler_allocated(struct hab_thread *thread, void *address, size_t size, size_t counted)
{
	struct hab_heap *heap = thread->heap;
	struct hab_sample sample = { .address = address, .size = size };
	hab_sample_fn handler;

	if (!sampler_on(thread))
		return;
	if (counted < thread->until_sample) {
		count(thread, counted);
		return;
	}
	sample.weight = thread->since_sample + counted;
	thread->since_sample = 0;
	thread->until_sample = draw_distance(thread);
	/* The handler may allocate. */
	thread->sampling = true;
	handler = __atomic_load_n(&heap->sample_handler, __ATOMIC_ACQUIRE);
	if (handler)
		handler(&sample, heap->sample_context);
	if (hab_event_listeners(heap) & HAB_LISTENER(HAB_EVENT_SAMPLE)) {
		hab_event_report(thread, HAB_EVENT_SAMPLE, sample.weight, counted, size);
		hab_usdt_object(heap, address, size, sample.weight);
	}
	thread->sampling = false;
}

int hab_set_sampling_interval(struct hab_heap *heap, int64_t mean_bytes)
{
	if (mean_bytes < 0)
		return -EINVAL;
	__atomic_store_n(&heap->sampling_interval, mean_bytes, __ATOMIC_RELAXED);
	return 0;
}

int hab_set_sample_handler(struct hab_heap *heap, hab_sample_fn handler, void *context)
{
	/* The release below: a thread that reads the new handler reads its context, too. */
	if (handler)
		heap->sample_context = context;
	__atomic_store_n(&heap->sample_handler, handler, __ATOMIC_RELEASE);
	return 0;
}
