// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The C functions of an allocator, as the program calls them.
 *
 * Each passes the call on. An object that is sampled is asked for by memalign(), aligned to a page,
 * which free() takes back as any other; a large one of glibc as the program has asked for it.
 *
 * Only the growth of a realloc() is drawn for, in usable sizes: a vector that grows in small steps
 * would otherwise be sampled, and copied, at each step. A live object stays live while the
 * allocator moves it, and is copied once more where free() would not find it.
 */
#include <errno.h>
#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "inside/client.h"
#include "inside/malloc/interpose.h"
#include "inside/malloc/real.h"
#include "inside/malloc/sample.h"
#include "inside/sandbox.h"

/* From here on pages are given back to the kernel, which zeroes them when they are touched. */
#define LARGE_ZERO (128u << 10)

/* --- malloc() and free() --------------------------------------------------------------- */

static HAB_SLOW void *malloc_slow(size_t size)
{
	struct hab_malloc_sample sample;
	void *p;

	if (!hab_sample_begin(&sample, size, HAB_SAMPLE_ENTRY))
		return hab_real.malloc(size);
	p = hab_sample_allocate(&sample, 1, size);
	return hab_sample_end(&sample, p ? p : hab_real.malloc(size), size, size);
}

HAB_INTERPOSED void *malloc(size_t size)
{
	if (hab_sample_count(size))
		return hab_real.malloc(size);
	return malloc_slow(size);
}

static HAB_SLOW void free_slow(void *p)
{
	hab_forget(p);
	hab_real.free(p);
}

HAB_INTERPOSED void free(void *p)
{
	if (hab_live_may_have(p)) {
		free_slow(p);
		return;
	}
	hab_real.free(p);
}

/* C23; a sampled object has not the size class of its size. */
HAB_INTERPOSED void free_sized(void *p, size_t size)
{
	(void)size;
	free(p);
}

HAB_INTERPOSED void free_aligned_sized(void *p, size_t alignment, size_t size)
{
	(void)alignment;
	(void)size;
	free(p);
}

static bool take_out(const void *p)
{
	struct hab_client *client = hab_client;
	struct hab_channel *channel = READ_ONCE(client->channel);
	int slot = hab_live_take(&client->live, p);

	if (slot < 0)
		return false;
	/* In a child by fork() the table is empty. */
	hab_live_release(&client->live, channel, slot);
	return true;
}

bool hab_is_live(void *p, struct hab_live_object *object)
{
	if (!hab_live_may_have(p) || hab_live_find(&hab_client->live, p, object) < 0 ||
	    object->mapped)
		return false;
	if (object->room == hab_real.usable_size(p))
		return true;
	take_out(p);
	return false;
}

bool hab_forget(void *p)
{
	struct hab_live_object object;

	return hab_is_live(p, &object) && take_out(p);
}

/* --- calloc() -------------------------------------------------------------------------- */

static char *page_of(const char *p)
{
	return (char *)((uintptr_t)p & -hab_page_bytes());
}

static char *page_from(const char *p)
{
	return page_of(p + hab_page_bytes() - 1);
}

/*
 * true: the kernel has dropped the whole pages from @begin to @end, and they are zero. It refuses
 * MADV_FREE where they would keep their bytes: if they are locked, or not the process's own. An
 * emulator may ignore both calls, which a page of this library shows. One of the object would
 * become resident, or a huge page with it.
 */
static bool drop_pages(char *begin, char *end)
{
	static volatile char room[128 << 10];
	volatile char *tried = page_from((const char *)room);

	/* An address with a tag: the memory of arm64 has it, too, and would lose it. */
	if (begin >= end || (uintptr_t)begin >> 56 || hab_sandbox_is_entered() ||
	    madvise(begin, end - begin, MADV_FREE) || madvise(begin, end - begin, MADV_DONTNEED))
		return false;
	*tried = 1;
	return !madvise((void *)tried, hab_page_bytes(), MADV_DONTNEED) && !*tried;
}

static bool is_zero(const char *p, size_t size)
{
	return !size || (!*p && !memcmp(p, p + 1, size - 1));
}

void hab_copy(void *to, const void *from, size_t size)
{
	const char *source = from;
	char *p = to, *end = p + size;
	size_t piece;

	for (; p < end; p += piece, source += from ? piece : 0) {
		piece = min(HAB_LIVE_PAGE - (uintptr_t)p % HAB_LIVE_PAGE, (size_t)(end - p));
		if (from && !is_zero(source, piece))
			memcpy(p, source, piece);
		else if (!is_zero(p, piece))
			memset(p, 0, piece);
	}
}

void hab_zero(void *p, size_t size)
{
	char *end = (char *)p + size, *first = page_from(p), *last = page_of(end);

	if (size < LARGE_ZERO || !drop_pages(first, last))
		first = last = end;
	hab_copy(p, NULL, first - (char *)p);
	hab_copy(last, NULL, end - last);
}

static HAB_SLOW void *calloc_slow(size_t count, size_t size)
{
	size_t bytes = count * size;
	struct hab_malloc_sample sample;
	void *p;

	if (!hab_sample_begin(&sample, bytes, HAB_SAMPLE_ENTRY))
		return hab_real.calloc(count, size);
	p = hab_sample_allocate(&sample, 1, bytes);
	if (p)
		hab_zero(p, bytes);
	return hab_sample_end(&sample, p ? p : hab_real.calloc(count, size), bytes, bytes);
}

HAB_INTERPOSED void *calloc(size_t count, size_t size)
{
	size_t bytes;

	if (__builtin_mul_overflow(count, size, &bytes) || hab_sample_count(bytes))
		return hab_real.calloc(count, size);
	return calloc_slow(count, size);
}

/* --- realloc() ------------------------------------------------------------------------- */

/* A live object has grown by @growth bytes: they count as allocated. */
static void count_growth(size_t growth, size_t asked, void *p, uintptr_t entry)
{
	struct hab_malloc_sample sample;

	if (!hab_sample_count(growth) && hab_sample_begin(&sample, growth, entry))
		hab_sample_end(&sample, p, asked, growth);
}

/* At most as much of an object is in memory twice while it moves. */
#define MOVE_BYTES (1ul << 20)

/* Copies the first @kept bytes of an object of the allocator to one that is aligned; frees it. */
static void *move(char *from, char *to, size_t kept)
{
	size_t at, piece;

	for (at = 0; at < kept; at += piece) {
		piece = min(kept - at, MOVE_BYTES);
		hab_copy(to + at, from + at, piece);
		if (kept > MOVE_BYTES)
			drop_pages(page_from(from + at), page_of(from + at + piece));
	}
	hab_real.free(from);
	return to;
}

/* @kept: usable bytes before the object at @p had @size bytes. */
static void *align_live(void *p, size_t size, size_t kept)
{
	size_t usable = hab_real.usable_size(p);
	void *aligned;

	if (hab_live_is_found(p))
		return p;
	/* What the allocator has added is room to grow in. */
	aligned = hab_real.memalign(HAB_LIVE_PAGE, max(size, usable));
	if ((uintptr_t)aligned % HAB_LIVE_PAGE) {
		hab_real.free(aligned);
		aligned = NULL;
	}
	return aligned ? move(p, aligned, min(kept, usable)) : p;
}

/* @object was live and was taken out of the table. Now it is at @p and has @size bytes. */
static void *enter_again(struct hab_live_object *object, struct hab_channel *channel, int slot,
			 void *p, size_t size, uintptr_t entry)
{
	struct hab_live_table *live = &hab_client->live;
	size_t before = object->usable;
	int err = errno;
	bool is_live =
		hab_live_resize(object, size, hab_sample_usable(p, size), READ_ONCE(live->step));

	if (is_live)
		p = align_live(p, size, object->room);
	object->room = hab_real.usable_size(p);
	errno = err;
	/* One without its sample point becomes ordinary where the allocator has put it. */
	if (!is_live || !hab_live_is_found(p)) {
		hab_live_release(live, channel, slot);
		return p;
	}
	hab_live_enter(live, channel, slot, p, object);
	if (object->usable > before)
		count_growth(object->usable - before, size, p, entry);
	return p;
}

static HAB_SLOW void *realloc_live(void *p, size_t size, struct hab_live_object *object,
				   uintptr_t entry)
{
	struct hab_client *client = hab_client;
	struct hab_channel *channel = READ_ONCE(client->channel);
	int slot = hab_live_take(&client->live, p);
	void *moved = hab_real.realloc(p, size);

	/* Another thread has doubled the step meanwhile. */
	if (slot < 0)
		return moved;
	if (moved)
		return enter_again(object, channel, slot, moved, size, entry);
	if (size)
		hab_live_enter(&client->live, channel, slot, p, object);
	else
		hab_live_release(&client->live, channel, slot);
	return NULL;
}

/*
 * As long as no live samples were dropped, an object of this size has one, unless it is older than
 * the channel, or the parent's. To get one it would be copied, and there may be no memory for that.
 */
#define HUGE_BYTES (16u << 20)

void *hab_realloc_grown(void *p, size_t size, size_t before, size_t growth, bool may_move,
			uintptr_t entry)
{
	struct hab_malloc_sample sample;
	void *aligned = NULL;
	size_t usable;

	if (!hab_sample_begin(&sample, growth, entry))
		return p;
	usable = hab_real.usable_size(p);
	if (hab_live_is_large(usable) ||
	    (may_move && (before < HUGE_BYTES || READ_ONCE(hab_client->live.step) > 1)))
		aligned = hab_sample_allocate(&sample, 1, max(size, usable));
	if (aligned)
		p = move(p, aligned, min(before, size));
	return hab_sample_end(&sample, p, size, before + growth);
}

static HAB_SLOW void *realloc_watched(void *p, size_t size)
{
	uintptr_t entry = HAB_SAMPLE_ENTRY;
	struct hab_live_object object;
	size_t before, after;

	if (hab_is_live(p, &object))
		return realloc_live(p, size, &object, entry);
	before = hab_real.usable_size(p);
	p = hab_real.realloc(p, size);
	after = p ? hab_real.usable_size(p) : 0;
	if (after <= before || hab_sample_count(after - before))
		return p;
	return hab_realloc_grown(p, size, before, after - before, true, entry);
}

HAB_INTERPOSED void *realloc(void *p, size_t size)
{
	if (!p)
		return malloc(size);
	if (hab_client)
		return realloc_watched(p, size);
	return hab_real.realloc(p, size);
}

HAB_INTERPOSED void *reallocarray(void *p, size_t count, size_t size)
{
	size_t bytes;

	if (__builtin_mul_overflow(count, size, &bytes)) {
		errno = ENOMEM;
		return NULL;
	}
	return realloc(p, bytes);
}

/* --- aligned objects ------------------------------------------------------------------- */

/* true if each function of the family takes it. */
static bool is_alignment(size_t alignment)
{
	return alignment >= sizeof(void *) && !(alignment & (alignment - 1));
}

#define ALIGNED_SLOW(alignment, size, otherwise)                \
	struct hab_malloc_sample sample;                        \
	void *p;                                                \
                                                                \
	if (!hab_sample_begin(&sample, size, HAB_SAMPLE_ENTRY)) \
		return otherwise;                               \
	p = hab_sample_allocate(&sample, alignment, size);      \
	return hab_sample_end(&sample, p ? p : otherwise, size, size)

#define ALIGNED(function)                                                          \
	static HAB_SLOW void *function##_slow(size_t alignment, size_t size)       \
	{                                                                          \
		ALIGNED_SLOW(alignment, size, hab_real.function(alignment, size)); \
	}                                                                          \
	HAB_INTERPOSED void *function(size_t alignment, size_t size)               \
	{                                                                          \
		if (!is_alignment(alignment) || hab_sample_count(size))            \
			return hab_real.function(alignment, size);                 \
		return function##_slow(alignment, size);                           \
	}

ALIGNED(memalign)
ALIGNED(aligned_alloc)

static HAB_SLOW int posix_memalign_slow(void **result, size_t alignment, size_t size)
{
	struct hab_malloc_sample sample;
	int err = 0;
	void *p;

	if (!hab_sample_begin(&sample, size, HAB_SAMPLE_ENTRY))
		return hab_real.posix_memalign(result, alignment, size);
	p = hab_sample_allocate(&sample, alignment, size);
	if (!p)
		err = hab_real.posix_memalign(&p, alignment, size);
	if (hab_sample_end(&sample, err ? NULL : p, size, size))
		*result = p;
	return err;
}

HAB_INTERPOSED int posix_memalign(void **result, size_t alignment, size_t size)
{
	if (!is_alignment(alignment) || hab_sample_count(size))
		return hab_real.posix_memalign(result, alignment, size);
	return posix_memalign_slow(result, alignment, size);
}

static HAB_SLOW void *valloc_slow(size_t size)
{
	ALIGNED_SLOW(hab_page_bytes(), size, hab_real.valloc(size));
}

HAB_INTERPOSED void *valloc(size_t size)
{
	if (hab_sample_count(size))
		return hab_real.valloc(size);
	return valloc_slow(size);
}

static HAB_SLOW void *pvalloc_slow(size_t size)
{
	ALIGNED_SLOW(hab_page_bytes(), size, hab_real.pvalloc(size));
}

HAB_INTERPOSED void *pvalloc(size_t size)
{
	size_t rounded = (size + hab_page_bytes() - 1) & -hab_page_bytes();

	if (rounded < size || hab_sample_count(rounded))
		return hab_real.pvalloc(size);
	return pvalloc_slow(rounded);
}

HAB_INTERPOSED size_t malloc_usable_size(void *p)
{
	size_t real = hab_real.usable_size(p);
	struct hab_live_object object;

	/*
	 * Only where the allocator rounds up to pages. With glibc the object may be another one,
	 * with more bytes than this had: see live.h.
	 */
	if (hab_is_live(p, &object) && real - min(object.usable, real) >= HAB_SPARE_BYTES)
		return object.usable;
	return real;
}
