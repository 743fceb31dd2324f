// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Regions: objects of one request, allocated in chunks and freed together.
 *
 * A region is a chain of chunks and a bump pointer in the newest. Its first chunk is small, because
 * most requests are; all others have one size, so that every free chunk serves every region. An
 * object that is too large for them gets a chunk of its own, of its size class. When the region is
 * closed its chunks become free chunks (lists.h).
 *
 * The sampler works as in TLABs: the fast path stops at the next sample point, and the slow path
 * uses the chunk's true end.
 */
#include <errno.h>

#include "lib/alloc/chunk.h"
#include "lib/alloc/lists.h"
#include "lib/alloc/trim.h"
#include "lib/alloc/trim_thread.h"
#include "lib/region.h"
#include "lib/thread.h"
#include "lib/rseq/tls.h"
#include "lib/telemetry/sampler.h"
#include "inside/usdt.h"

#define ALIGNMENT 16u
#define HEAD	  sizeof(struct hab_free_chunk)

/*
 * An object above this size gets a chunk of its own if the chunk in use has no room for it; a
 * smaller one gets the region a new chunk. So less than a quarter of a chunk stays unused.
 */
#define LARGEST_SHARED (HAB_NEXT_CHUNK_BYTES / 4)

/* The smallest chunk for such objects: it has a size class, and room for one. */
#define LEAST_SHARED HAB_LEAST_CLASS_BYTES

_Static_assert(LEAST_SHARED >= LARGEST_SHARED + HEAD, "the end of a buffer has room for any object");
_Static_assert(sizeof(struct hab_open_region) <= sizeof(struct hab_region) &&
		       offsetof(struct hab_open_region, position) ==
			       offsetof(struct hab_region, position) &&
		       offsetof(struct hab_open_region, limit) ==
			       offsetof(struct hab_region, limit),
	       "a caller's region has room for it, and callers use these fields");

/* The address of an object of 0 bytes in a region without chunks. */
static char no_bytes[ALIGNMENT] __attribute__((aligned(ALIGNMENT)));

static uintptr_t top_of(const struct hab_open_region *region)
{
	return region->position + region->limit;
}

/* The fast path may use [top, end) from now on. */
static void open_to(struct hab_open_region *region, uintptr_t top, uintptr_t end)
{
	region->limit = end + 1;
	region->position = top - end - 1;
}

static void forget_chunks(struct hab_open_region *region)
{
	region->chunks = NULL;
	region->large = NULL;
	region->sampled = NULL;
	region->end = (uintptr_t)no_bytes;
	region->counted = region->end;
	region->lives = region->heap->lives;
	open_to(region, region->end, region->end);
}

int hab_region_open(struct hab_region *region, struct hab_heap *heap)
{
	struct hab_open_region *opened = (struct hab_open_region *)region;

	if (!region || !heap)
		return -EINVAL;
	*opened = (struct hab_open_region){ .heap = heap };
	forget_chunks(opened);
	return 0;
}

static bool sampler_needed(const struct hab_thread *thread, struct hab_open_region *region)
{
	return region->sampling.on || hab_sampler_needed(thread);
}

/* --- chunks --------------------------------------------------------------------------- */

/* Only this thread writes it; a collection reads it. */
static void count_open(struct hab_thread *thread, int chunks)
{
	WRITE_ONCE(thread->counters.open_chunks, thread->counters.open_chunks + chunks);
}

/* A thread without sections could not take it again from a list of one CPU or cid. */
static u32 home_of(struct hab_heap *heap, struct hab_thread *thread, const struct hab_chunk *taken)
{
	if (!thread->sections)
		return hab_lists_heap_home(heap);
	/* Without sysfs there may be CPUs of higher numbers. */
	if (heap->word_of == HAB_WORD_OF_CID || (u32)taken->cpu >= heap->nr_cpus)
		return hab_lists_own_home(heap);
	return (u32)taken->cpu;
}

/* From @least to @bytes. */
static struct hab_free_chunk *take_fresh(struct hab_heap *heap, struct hab_thread *thread,
					 u32 class, u64 least, u64 bytes)
{
	struct hab_free_chunk *chunk;
	struct hab_chunk taken;

	if (hab_take(heap, thread, least, bytes, &taken))
		return NULL;
	chunk = taken.base;
	chunk->home = home_of(heap, thread, &taken);
	chunk->level = thread->sections ? taken.level : 0;
	chunk->class = taken.size < bytes ? hab_class_within(taken.size) : class;
	chunk->bytes = taken.size;
	thread->counters.region_chunks++;
	count_open(thread, 1);
	return chunk;
}

static struct hab_free_chunk *take_listed(struct hab_heap *heap, struct hab_thread *thread,
					  u32 class, u64 bytes)
{
	struct hab_free_chunk *chunk = class == HAB_CLASS_NONE ?
					       hab_lists_take_extent(heap, bytes) :
					       hab_lists_take(heap, thread, class);

	if (!chunk)
		return NULL;
	thread->counters.region_chunks++;
	thread->counters.listed_chunks++;
	count_open(thread, 1);
	thread->counters.free_bytes[chunk->level] -= chunk->bytes;
	return chunk;
}

/* Of the class's size, or of @bytes without a class; a fresh one may have @least bytes. */
static struct hab_free_chunk *take_chunk(struct hab_heap *heap, struct hab_thread *thread,
					 u32 class, u64 least, u64 bytes)
{
	struct hab_free_chunk *chunk = take_listed(heap, thread, class, bytes);

	if (class != HAB_CLASS_NONE)
		bytes = hab_class_bytes(class);
	if (!chunk)
		chunk = take_fresh(heap, thread, class, min(least, bytes), bytes);
	/* The heap is full, its lists were collected, and some chunks stay in the heap's. */
	return chunk ? chunk : take_listed(heap, thread, class, bytes);
}

static struct hab_free_chunk *take_large(struct hab_open_region *region, struct hab_thread *thread,
					 size_t bytes)
{
	u32 class = hab_class_of(bytes + HEAD);
	struct hab_free_chunk *chunk = take_chunk(region->heap, thread, class, UINT64_MAX, bytes + HEAD);

	if (!chunk)
		return NULL;
	chunk->next = (uintptr_t)region->large;
	region->large = chunk;
	thread->counters.region_bytes += bytes;
	return chunk;
}

/* The region leaves its chunk: the bytes allocated there are counted. */
static void leave_chunk(struct hab_open_region *region, struct hab_thread *thread)
{
	if (region->chunks)
		thread->counters.region_bytes += top_of(region) - (uintptr_t)region->chunks - HEAD;
}

/* false if there is no memory for an object of @bytes. */
static bool next_chunk(struct hab_open_region *region, struct hab_thread *thread, size_t bytes)
{
	bool first = !region->chunks && bytes <= HAB_FIRST_CHUNK_BYTES - HEAD;
	u32 class = first ? HAB_CLASS_FIRST : HAB_CLASS_NEXT;
	/* The end of a buffer serves, too: else it would be in no extent. */
	struct hab_free_chunk *chunk =
		take_chunk(region->heap, thread, class, LEAST_SHARED, 0);

	/* A full heap may have room for a small one. */
	if (!chunk && !first && bytes <= HAB_FIRST_CHUNK_BYTES - HEAD)
		chunk = take_chunk(region->heap, thread, HAB_CLASS_FIRST, UINT64_MAX, 0);
	if (!chunk)
		return false;
	leave_chunk(region, thread);
	chunk->next = (uintptr_t)region->chunks;
	region->chunks = chunk;
	region->end = (uintptr_t)chunk + chunk->bytes;
	open_to(region, (uintptr_t)chunk + HEAD, region->end);
	return true;
}

/* --- objects -------------------------------------------------------------------------- */

static void *fail(void)
{
	errno = ENOMEM;
	return NULL;
}

/*
 * OpenTelemetry is to get the free of each object that it got: the region has a list of them, in
 * its own memory.
 */
struct sampled {
	struct sampled *next;
	void *object;
};

static void keep_sampled(struct hab_open_region *region, struct hab_thread *thread, void *object)
{
	struct sampled *sampled;

	if (!hab_usdt_has_tracer())
		return;
	/* Else this may be sampled as well, without end. */
	thread->sampling = true;
	sampled = hab_region_alloc((struct hab_region *)region, sizeof(*sampled));
	thread->sampling = false;
	if (!sampled)
		return;
	sampled->object = object;
	sampled->next = region->sampled;
	region->sampled = sampled;
}

static void free_sampled(struct hab_open_region *region)
{
	const struct sampled *sampled;

	for (sampled = region->sampled; sampled; sampled = sampled->next)
		hab_usdt_free(sampled->object);
}

/* Counts the bytes before the object, and reports the object if it is sampled. */
static void sample(struct hab_open_region *region, struct hab_thread *thread, u64 before,
		   void *object, size_t size, size_t bytes)
{
	uintptr_t top;

	/* The object is allocated already: the handler may allocate in this region. */
	if (hab_sampler_region_allocated(thread, &region->sampling, before, object, size, bytes))
		keep_sampled(region, thread, object);
	top = top_of(region);
	region->counted = top;
	open_to(region, top, hab_sampler_end(thread, &region->sampling, top, region->end));
}

__attribute__((noinline)) void *hab_region_alloc_slow(struct hab_region *opened, size_t size)
{
	struct hab_open_region *region = (struct hab_open_region *)opened;
	struct hab_thread *thread = hab_thread_calling(region->heap);
	size_t bytes = (size + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1);
	struct hab_free_chunk *chunk;
	u64 before;
	void *object;

	if (!thread || bytes < size || bytes > region->heap->arena_bytes)
		return fail();
	thread->entry = (uintptr_t)__builtin_dwarf_cfa();
	if (region->lives != region->heap->lives)
		forget_chunks(region);
	before = top_of(region) - region->counted;
	if (bytes <= region->end - top_of(region) || bytes <= LARGEST_SHARED) {
		if (bytes > region->end - top_of(region) && !next_chunk(region, thread, bytes))
			return fail();
		object = (void *)top_of(region);
		open_to(region, top_of(region) + bytes, region->end);
	} else {
		chunk = take_large(region, thread, bytes);
		if (!chunk)
			return fail();
		object = chunk + 1;
	}
	region->counted = top_of(region);
	if (__builtin_expect(sampler_needed(thread, region), 0))
		sample(region, thread, before, object, size, bytes);
	return object;
}

/* --- close ---------------------------------------------------------------------------- */

static void count_closed(struct hab_thread *thread, struct hab_free_chunk *chunk)
{
	count_open(thread, -1);
	/* A trim may look at a chunk that it takes for a free one. */
	WRITE_ONCE(chunk->freed_at, READ_ONCE(thread->heap->now));
	thread->counters.free_bytes[chunk->level] += chunk->bytes;
}

/* The chunks go home, as many at once as have the same home and class. */
static void close_chunks(struct hab_heap *heap, struct hab_thread *thread,
			 struct hab_free_chunk *first)
{
	struct hab_free_chunk *last, *next;

	for (; first; first = next) {
		count_closed(thread, first);
		for (last = first; (next = hab_free_chunk_at(last->next)); last = next) {
			if (next->home != first->home || next->class != first->class)
				break;
			count_closed(thread, next);
		}
		hab_lists_put(heap, first, last);
	}
}

/* Regions of one chunk are so short that only some of them look at the clock. */
static bool looks_at_clock(struct hab_thread *thread, const struct hab_open_region *region)
{
	const struct hab_free_chunk *chunk = region->chunks;

	return ++thread->closes % 16 == 0 || region->large || (chunk && chunk->next);
}

void hab_region_close(struct hab_region *opened)
{
	struct hab_open_region *region = (struct hab_open_region *)opened;
	struct hab_heap *heap = region->heap;
	struct hab_thread *thread = hab_thread_calling(heap);

	/* Without memory for the thread's state the chunks stay taken until the reset. */
	if (thread && region->lives == heap->lives && (region->chunks || region->large)) {
		hab_sampler_region_closed(thread, &region->sampling,
					  top_of(region) - region->counted);
		free_sampled(region);
		leave_chunk(region, thread);
		if (looks_at_clock(thread, region) && hab_trim_look(heap, thread) &&
		    (heap->flags & HAB_HEAP_TRIM_THREAD))
			hab_trim_thread_start();
		close_chunks(heap, thread, region->chunks);
		close_chunks(heap, thread, region->large);
	}
	forget_chunks(region);
	region->sampling.on = false;
}
