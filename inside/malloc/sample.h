/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Samples of the program's objects.
 *
 * All that a call of malloc() does for it is to count down bytes in thread-local storage. When they
 * are used up, the caller goes through hab_sample_begin(), allocates, and hab_sample_end().
 */
#ifndef HAB_MALLOC_SAMPLE_H
#define HAB_MALLOC_SAMPLE_H

#include <stddef.h>

#include "wire/sampling.h"

/**
 * struct hab_malloc_thread - a thread; zeroed at first
 * @left: bytes that it may allocate before hab_sample_begin() is called
 * @set: value of @left when it was last set
 * @sampling: its samples
 * @allocated: bytes that it has allocated until @left was last set
 * @random: state of the generator
 * @connection: number of the connection that all this is of
 * @tid: its number
 * @inside: between hab_sample_begin() and hab_sample_end(). Signal handlers may allocate then
 */
struct hab_malloc_thread {
	u64 left;
	u64 set;
	struct hab_sampling sampling;
	u64 allocated;
	u64 random;
	u32 connection;
	u32 tid;
	bool inside;
};

extern __thread struct hab_malloc_thread hab_malloc_thread
	__attribute__((tls_model("initial-exec"), visibility("hidden")));

/* Counts bytes; false: the caller calls hab_sample_begin() with them. */
static inline bool hab_sample_count(size_t bytes)
{
	u64 left = hab_malloc_thread.left;

	if (__builtin_expect(bytes > left, 0))
		return false;
	hab_malloc_thread.left = left - bytes;
	return true;
}

/**
 * struct hab_malloc_sample - a sample that is being taken
 * @drawn: bytes that were drawn: of the new object, or what an object grew by
 * @point: which of these bytes is the sample point, from 1
 * @id: its sample_id
 * @interval: that it was drawn with
 * @weight: bytes of the thread since its last sample
 * @entry: stack pointer at the call of the library
 * @slot: in the table of live samples; -1: not live
 * @mapped: see struct hab_live_object
 * @err: errno of the caller
 */
struct hab_malloc_sample {
	u64 drawn;
	u64 point;
	u64 id;
	u64 interval;
	u64 weight;
	uintptr_t entry;
	int slot;
	bool mapped;
	int err;
};

/*
 * The stack pointer at the program's call. For slow paths: an interposed function jumps to them as
 * its last step, so they have its frame.
 */
#define HAB_SAMPLE_ENTRY ((uintptr_t)__builtin_dwarf_cfa())

/**
 * hab_sample_begin - look whether the sample point is reached
 * @sample: filled in
 * @bytes: that are allocated; hab_sample_count() has not counted them
 * @entry: HAB_SAMPLE_ENTRY
 *
 * Return: true if the caller has to allocate the object and then call hab_sample_end().
 */
bool hab_sample_begin(struct hab_malloc_sample *sample, u64 bytes, uintptr_t entry);

/**
 * hab_sample_allocate - allocate the object of a sample so that it can be live
 * @sample: begun
 * @alignment: a power of two
 * @size: in bytes
 *
 * Return: an object of the allocator, aligned to pages, or NULL: the caller allocates an ordinary
 * one. The sample is live if that is large (hab_live_is_large()), and otherwise not.
 */
void *hab_sample_allocate(struct hab_malloc_sample *sample, size_t alignment, size_t size);

/* The sample is memory that the program has mapped, so that it can be live where it is. */
void hab_sample_mapping(struct hab_malloc_sample *sample);

/**
 * hab_sample_end - send the sample, and make it live if it has a slot
 * @sample: begun
 * @p: the object; NULL: there is no memory, and no sample
 * @asked: its size as the program asked for
 * @all: its bytes with those that were drawn now: of an object that has grown, usable ones
 *
 * errno is kept unless @p is NULL. Return: @p.
 */
void *hab_sample_end(struct hab_malloc_sample *sample, void *p, size_t asked, u64 all);

/* What glibc may add to any object. */
#define HAB_SPARE_BYTES 64

/*
 * What malloc_usable_size() would be if the object of @size bytes at @p were no sample; or what it
 * is, if that differs little.
 */
size_t hab_sample_usable(void *p, size_t size);

#endif /* HAB_MALLOC_SAMPLE_H */
