// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * C++'s operators new and delete, by their mangled names (Itanium ABI, size_t is unsigned long).
 *
 * The operators of a C++ library call malloc() and free(), which count the object. Some or all
 * operators of an allocator (jemalloc, tcmalloc, mimalloc) do not. So each operator is called once
 * at the start, and if that call counts nothing, its objects are counted here. A sampled object
 * comes from memalign() and goes to free(). It does not have the size class of its size: so a
 * delete of any object that is aligned to a page goes to the allocator's operator without a size.
 *
 * If the allocator has no operators, hab_real_find() hides those of this library: then only calls
 * that were bound at the program's start come here. So no operator is looked up at a call.
 */
#include <malloc.h>
#include <stdlib.h>

#include "inside/malloc/interpose.h"
#include "inside/live.h"
#include "inside/malloc/real.h"
#include "inside/malloc/sample.h"

static void *new_by_malloc(size_t alignment, size_t size)
{
	return alignment > 16 ? memalign(alignment, size) : malloc(size);
}

/*
 * The first call of all. @otherwise: of a weak reference, in a program without a C++ library, or
 * where the operators could not be hidden.
 */
#define FIND(member, result, parameters, arguments, otherwise) \
	static HAB_SLOW result member##_find parameters        \
	{                                                      \
		hab_real_find();                               \
		if (!hab_real.member)                          \
			return otherwise;                      \
		return hab_real.member arguments;              \
	}
#define IS_FOUND(member) __builtin_expect(hab_real.member != NULL, 1)

/*
 * An ordinary object of a sample is of the operator that does not throw: an exception, or the
 * handler of a lack of memory, must not leave between hab_sample_begin() and hab_sample_end().
 */
#define NEW(symbol, member, parameters, arguments, alignment, nothrow, nothrow_arguments)    \
	static bool member##_counts;                                                         \
	static HAB_SLOW void *member##_slow parameters                                       \
	{                                                                                    \
		struct hab_malloc_sample sample;                                             \
		void *p;                                                                     \
                                                                                             \
		if (hab_real.nothrow && hab_sample_begin(&sample, size, HAB_SAMPLE_ENTRY)) { \
			p = hab_sample_allocate(&sample, alignment, size);                   \
			if (!p)                                                              \
				p = hab_real.nothrow nothrow_arguments;                      \
			if (hab_sample_end(&sample, p, size, size))                          \
				return p;                                                    \
		}                                                                            \
		return hab_real.member arguments;                                            \
	}                                                                                    \
	FIND(member, void *, parameters, arguments, new_by_malloc(alignment, size))          \
	HAB_INTERPOSED void *member##_operator parameters __asm__(symbol);                   \
	void *member##_operator parameters                                                   \
	{                                                                                    \
		if (!IS_FOUND(member))                                                       \
			return member##_find arguments;                                      \
		if (!member##_counts || hab_sample_count(size))                              \
			return hab_real.member arguments;                                    \
		return member##_slow arguments;                                              \
	}

/* The operators do not look at std::nothrow. */
#define NEW_PLAIN(symbol, member, nothrow) \
	NEW(symbol, member, (size_t size), (size), 1, nothrow, (size, NULL))
#define NEW_NOTHROW(symbol, member) \
	NEW(symbol, member, (size_t size, const void *tag), (size, tag), 1, member, (size, tag))
#define NEW_ALIGNED(symbol, member, nothrow)                                               \
	NEW(symbol, member, (size_t size, size_t alignment), (size, alignment), alignment, \
	    nothrow, (size, alignment, NULL))
#define NEW_ALIGNED_NOTHROW(symbol, member)                                   \
	NEW(symbol, member, (size_t size, size_t alignment, const void *tag), \
	    (size, alignment, tag), alignment, member, (size, alignment, tag))

NEW_PLAIN("_Znwm", new, new_nothrow)
NEW_PLAIN("_Znam", new_array, new_array_nothrow)
NEW_NOTHROW("_ZnwmRKSt9nothrow_t", new_nothrow)
NEW_NOTHROW("_ZnamRKSt9nothrow_t", new_array_nothrow)
NEW_ALIGNED("_ZnwmSt11align_val_t", new_aligned, new_aligned_nothrow)
NEW_ALIGNED("_ZnamSt11align_val_t", new_array_aligned, new_array_aligned_nothrow)
NEW_ALIGNED_NOTHROW("_ZnwmSt11align_val_tRKSt9nothrow_t", new_aligned_nothrow)
NEW_ALIGNED_NOTHROW("_ZnamSt11align_val_tRKSt9nothrow_t", new_array_aligned_nothrow)

/* --- which of them are counted here --------------------------------------------------- */

#define TRY_BYTES 64

/* An allocator that checks frees wants the delete of each new. */
static void give_back(void *p, void (*release)(void *))
{
	(release ?: hab_real.free)(p);
}

static void give_back_aligned(void *p, void (*release)(void *, size_t))
{
	if (release)
		release(p, TRY_BYTES);
	else
		hab_real.free(p);
}

/* false: the operator at @member has called a function that has counted. */
#define TRY(member, release, ...)                                               \
	do {                                                                    \
		void *p;                                                        \
                                                                                \
		if (!hab_real.member)                                           \
			break;                                                  \
		hab_malloc_thread.left = 2 * TRY_BYTES;                         \
		p = hab_real.member(TRY_BYTES, ##__VA_ARGS__);                  \
		member##_counts = hab_malloc_thread.left == 2 * TRY_BYTES && p; \
		release;                                                        \
	} while (0)

__attribute__((constructor)) static void start(void)
{
	hab_try_operators();
}

void hab_try_operators(void)
{
	u64 left = hab_malloc_thread.left;

	hab_real_find();
	if (!hab_real.may_sample || !hab_real.own_operators)
		return;
	TRY(new, give_back(p, hab_real.delete));
	TRY(new_array, give_back(p, hab_real.delete_array));
	TRY(new_nothrow, give_back(p, hab_real.delete), NULL);
	TRY(new_array_nothrow, give_back(p, hab_real.delete_array), NULL);
	TRY(new_aligned, give_back_aligned(p, hab_real.delete_aligned), TRY_BYTES);
	TRY(new_array_aligned, give_back_aligned(p, hab_real.delete_array_aligned), TRY_BYTES);
	TRY(new_aligned_nothrow, give_back_aligned(p, hab_real.delete_aligned), TRY_BYTES, NULL);
	TRY(new_array_aligned_nothrow, give_back_aligned(p, hab_real.delete_array_aligned),
	    TRY_BYTES, NULL);
	hab_malloc_thread.left = left;
}

/* --- delete --------------------------------------------------------------------------- */

/* A live object is freed as one of memalign(). */
static HAB_SLOW bool free_live(void *p)
{
	if (!hab_live_may_have(p) || !hab_forget(p))
		return false;
	hab_real.free(p);
	return true;
}

#define DELETE(symbol, member, parameters, arguments, unsized, unsized_arguments) \
	FIND(member, void, parameters, arguments, free(p))                        \
	HAB_INTERPOSED void member##_operator parameters __asm__(symbol);         \
	void member##_operator parameters                                         \
	{                                                                         \
		if (!IS_FOUND(member)) {                                          \
			member##_find arguments;                                  \
			return;                                                   \
		}                                                                 \
		if (!__builtin_expect((uintptr_t)p % HAB_LIVE_PAGE || !p, 1) &&   \
		    hab_real.own_operators) {                                     \
			if (!free_live(p))                                        \
				hab_real.unsized unsized_arguments;               \
			return;                                                   \
		}                                                                 \
		hab_real.member arguments;                                        \
	}

#define DELETE_PLAIN(symbol, member) DELETE(symbol, member, (void *p), (p), member, (p))
#define DELETE_TAGGED(symbol, member, type) \
	DELETE(symbol, member, (void *p, type tag), (p, tag), member, (p, tag))
#define DELETE_SIZED(symbol, member, unsized) \
	DELETE(symbol, member, (void *p, size_t size), (p, size), unsized, (p))

DELETE_PLAIN("_ZdlPv", delete)
DELETE_PLAIN("_ZdaPv", delete_array)
DELETE_TAGGED("_ZdlPvRKSt9nothrow_t", delete_nothrow, const void *)
DELETE_TAGGED("_ZdaPvRKSt9nothrow_t", delete_array_nothrow, const void *)
DELETE_SIZED("_ZdlPvm", delete_sized, delete)
DELETE_SIZED("_ZdaPvm", delete_array_sized, delete_array)
DELETE_TAGGED("_ZdlPvSt11align_val_t", delete_aligned, size_t)
DELETE_TAGGED("_ZdaPvSt11align_val_t", delete_array_aligned, size_t)
DELETE("_ZdlPvSt11align_val_tRKSt9nothrow_t", delete_aligned_nothrow,
       (void *p, size_t alignment, const void *tag), (p, alignment, tag), delete_aligned_nothrow,
       (p, alignment, tag))
DELETE("_ZdaPvSt11align_val_tRKSt9nothrow_t", delete_array_aligned_nothrow,
       (void *p, size_t alignment, const void *tag), (p, alignment, tag),
       delete_array_aligned_nothrow, (p, alignment, tag))
DELETE("_ZdlPvmSt11align_val_t", delete_sized_aligned, (void *p, size_t size, size_t alignment),
       (p, size, alignment), delete_aligned, (p, alignment))
DELETE("_ZdaPvmSt11align_val_t", delete_array_sized_aligned,
       (void *p, size_t size, size_t alignment), (p, size, alignment), delete_array_aligned,
       (p, alignment))
