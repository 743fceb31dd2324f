// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Allocation of objects: in the thread's TLAB, or as a chunk.
 *
 * The fast path is one addition (see struct hab_tlab). Its carry shows that the object does not
 * fit, for every size, so no size can overflow it.
 */
#include <errno.h>

#include "lib/alloc/chunk.h"
#include "lib/alloc/sizing.h"
#include "lib/thread.h"
#include "lib/rseq/tls.h"
#include "lib/telemetry/sampler.h"

_Static_assert(offsetof(struct hab_heap, tlab_offset) == 0 &&
		       offsetof(struct hab_tlab, position) == 0 &&
		       offsetof(struct hab_tlab, limit) == 8 &&
		       offsetof(struct hab_tlab, mask) == 16,
	       "callers with HAB_INLINE use these fields, see hab.h");

static void *fail(int err)
{
	errno = err;
	return NULL;
}

static void report(struct hab_thread *thread, uint32_t kind, uint64_t bytes, size_t size)
{
	struct hab_ioc_report report = {
		.kind = kind, .bytes = bytes, .chunk_bytes = bytes, .object_bytes = size
	};

	hab_event_report(thread, &report);
}

/* The object gets a chunk of its own; the TLAB stays. */
static void *alloc_outside(struct hab_heap *heap, struct hab_thread *thread, size_t size)
{
	uint64_t in_tlab = hab_thread_left(thread);
	struct hab_chunk chunk;
	int err = hab_take(heap, thread, size, size, &chunk);

	if (__builtin_expect(err, 0))
		return fail(-err);
	thread->counters.outside_allocations++;
	thread->counters.allocated_bytes += chunk.size;
	if (__builtin_expect(hab_event_has_listeners(heap, HAB_EVENT_OUTSIDE), 0))
		report(thread, HAB_EVENT_OUTSIDE, chunk.size, size);
	if (hab_sampler_passes(thread, chunk.size + in_tlab)) {
		hab_sampling_count(&thread->objects, chunk.size);
	} else if (__builtin_expect(hab_sampler_needed(thread), 0)) {
		hab_sampler_allocated(thread, chunk.base, size, chunk.size);
		if (thread->end)
			hab_sampler_open(thread, hab_thread_top(thread));
	}
	return chunk.base;
}

/*
 * true if the TLAB is kept and the object, for which it has too little left, goes outside.
 * HotSpot's rule: keep it if more than a limit is left. The limit rises each time, so every TLAB is
 * retired in the end.
 */
static bool keep_tlab(struct hab_heap *heap, struct hab_thread *thread, uintptr_t top, size_t bytes)
{
	/* A small object does not go outside just because the TLAB is still small. */
	if (bytes > heap->largest_in_tlab && bytes > thread->tlab_bytes)
		return true;
	if (thread->end - top <= thread->waste_limit)
		return false;
	thread->waste_limit += 4 * sizeof(void *);
	return true;
}

static int refill_tlab(struct hab_heap *heap, struct hab_thread *thread, size_t bytes)
{
	size_t size = hab_sizing_next(heap, thread, bytes);
	struct hab_chunk chunk;
	int err = -ENOMEM;

	/* The full size, from the level whose buffers are that large; else any size that serves. */
	if (size > heap->lowest_bytes)
		err = hab_take(heap, thread, size, size, &chunk);
	if (err)
		err = hab_take(heap, thread, bytes, size, &chunk);
	if (__builtin_expect(err, 0))
		return err;
	hab_thread_retire(thread);
	hab_thread_set_range(thread, (uintptr_t)chunk.base, (uintptr_t)chunk.base + chunk.size);
	/* HotSpot's fraction, at least what a chunk of its own may waste. */
	thread->waste_limit = size / 64 > HAB_GRANULE ? size / 64 : HAB_GRANULE;
	thread->counters.tlab_refills++;
	hab_sizing_refilled(heap, thread);
	return 0;
}

__attribute__((noinline)) static void *alloc_slow(struct hab_heap *heap, size_t size)
{
	struct hab_thread *thread = hab_thread_calling(heap);
	size_t mask = heap->alignment - 1, bytes = (size + mask) & ~mask;
	bool refilled = false;
	uintptr_t top;
	int err;

	if (!thread || bytes < size)
		return fail(ENOMEM);
	thread->entry = (uintptr_t)__builtin_dwarf_cfa();
	hab_sampler_count(thread);
	top = thread->end ? hab_thread_top(thread) : 0;
	if (!bytes && heap->tlab_mode == HAB_TLABS_NONE)
		bytes = size = heap->alignment;
	if (!thread->end || bytes > thread->end - top) {
		if (bytes && keep_tlab(heap, thread, top, bytes))
			return alloc_outside(heap, thread, size);
		err = refill_tlab(heap, thread, bytes ? bytes : heap->alignment);
		if (err)
			return fail(-err);
		top = thread->start;
		refilled = true;
	}
	/* Move the top first: the sampler's handler may allocate. */
	hab_tlab_open(thread->tlab, top + bytes, thread->end);
	if (refilled && hab_event_has_listeners(heap, HAB_EVENT_TLAB))
		report(thread, HAB_EVENT_TLAB, thread->end - thread->start, size);
	if (refilled && hab_sampler_passes(thread, thread->end - top)) {
		/* The object is counted with those that follow. */
		thread->counted = top;
	} else if (__builtin_expect(hab_sampler_needed(thread), 0)) {
		thread->counted = top + bytes;
		hab_sampler_allocated(thread, (void *)top, size, bytes);
		hab_sampler_open(thread, hab_thread_top(thread));
	}
	return (void *)top;
}

/*
 * Nine instructions with the return. The sum overwrites the size, and the slow path computes the
 * size from it; the empty asm keeps the compiler from saving a copy of the size.
 */
void *hab_alloc(struct hab_heap *heap, size_t size)
{
	hab_tls_tlab *tlab = hab_tls_at(heap->tlab_offset);
	uint64_t position = tlab->position;
	uint64_t next;

	if (__builtin_expect(__builtin_add_overflow((uint64_t)size, position, &next), 0)) {
		__asm__("" : "+r"(next));
		return alloc_slow(heap, next - position);
	}
	tlab->position = next | tlab->mask;
	hab_prefetch_((void *)(position + tlab->limit));
	return (void *)(position + tlab->limit);
}

/* Only slow paths read the tag. */
__attribute__((noinline)) static void *alloc_slow_tagged(struct hab_heap *heap, size_t size,
							 const char *tag)
{
	const char *before = hab_set_tag(tag);
	void *object = alloc_slow(heap, size);

	hab_set_tag(before);
	return object;
}

void *hab_alloc_tagged(struct hab_heap *heap, size_t size, const char *tag)
{
	hab_tls_tlab *tlab = hab_tls_at(heap->tlab_offset);
	uint64_t position = tlab->position;
	uint64_t next;

	if (__builtin_expect(__builtin_add_overflow((uint64_t)size, position, &next), 0))
		return alloc_slow_tagged(heap, size, tag);
	tlab->position = next | tlab->mask;
	hab_prefetch_((void *)(position + tlab->limit));
	return (void *)(position + tlab->limit);
}

void *hab_alloc_aligned(struct hab_heap *heap, size_t alignment, size_t size)
{
	size_t padded;
	char *memory;

	if (!alignment || (alignment & (alignment - 1)))
		return fail(EINVAL);
	if (alignment <= heap->alignment)
		return hab_alloc(heap, size);
	if (__builtin_add_overflow(size, alignment - heap->alignment, &padded))
		return fail(ENOMEM);
	memory = hab_alloc(heap, padded);
	if (!memory)
		return NULL;
	return memory + (-(uintptr_t)memory & (alignment - 1));
}
