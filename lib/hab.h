/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * libhab: allocation buffers of the thread (TLAB), the core (CLAB) and the processor (PLAB),
 * without foreign allocations. Objects are not freed one by one: a reset frees all objects of a
 * heap, and closing a region frees all objects of that region.
 *
 *	struct hab_heap *heap;
 *
 *	if (hab_heap_create(&heap, NULL))
 *		...
 *	struct node *node = hab_alloc(heap, sizeof(*node));
 *	...
 *	hab_heap_reset(heap);		// frees all objects
 *	hab_heap_destroy(heap);
 *
 *	struct hab_region region;	// the objects of a request
 *
 *	hab_region_open(&region, heap);
 *	struct field *field = hab_region_alloc(&region, sizeof(*field));
 *	...
 *	hab_region_close(&region);	// frees them
 *
 * Functions return 0 or a negative errno, or a pointer (NULL with errno set). All may be called
 * from any thread at any time unless a comment says otherwise; none may be called from a signal
 * handler.
 */
#ifndef HAB_H
#define HAB_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Of this header; hab_version() is the library's. */
#define HAB_VERSION "0.2.0"
/* 10000 * major + 100 * minor + patch */
#define HAB_VERSION_NUMBER 200

/*
 * No function has the attribute malloc: an object may have the address of one that a reset or the
 * close of a region has freed, and compilers do not know that those calls free it.
 */
#ifdef __GNUC__
#define HAB_ATTRIBUTE_(...) __attribute__((__VA_ARGS__))
#else
#define HAB_ATTRIBUTE_(...)
#endif
#define HAB_NONNULL_(...) HAB_ATTRIBUTE_(nonnull(__VA_ARGS__))
#define HAB_MUST_CHECK_	  HAB_ATTRIBUTE_(warn_unused_result)
#define HAB_OBJECT_(size) HAB_MUST_CHECK_ HAB_NONNULL_(1) HAB_ATTRIBUTE_(alloc_size(size))

/** hab_version - HAB_VERSION of the library that runs */
const char *hab_version(void) HAB_ATTRIBUTE_(const, returns_nonnull);

/* A cast without a warning in both languages. */
#ifdef __cplusplus
#define HAB_CAST_(type, value) reinterpret_cast<type>(value)
#else
#define HAB_CAST_(type, value) ((type)(value))
#endif

struct hab_heap;

/* Flags of struct hab_heap_config. */
#define HAB_HEAP_PROCESS     0x1u /* use the process backend */
#define HAB_HEAP_DEVICE	     0x2u /* fail without the device instead of falling back */
#define HAB_HEAP_VERIFY	     0x4u /* check each chunk by the hardware's CPU number; slower */
#define HAB_HEAP_SMALL_PAGES 0x8u /* no huge pages */
#define HAB_HEAP_TRIM_THREAD 0x10u /* a thread of the library's trims, once a second */
#define HAB_HEAP_NO_TRIM     0x20u /* only hab_heap_trim() trims */

/**
 * enum hab_tlab_mode - how TLABs are sized
 * @HAB_TLABS_FIXED: all alike
 * @HAB_TLABS_NONE: each object is a chunk of its own
 * @HAB_TLABS_GROWING: HotSpot's rule: by each thread's share, at each reset
 * @HAB_TLABS_AUTO: by each thread's rate of refills, within waste_percent
 */
enum hab_tlab_mode {
	HAB_TLABS_FIXED,
	HAB_TLABS_NONE,
	HAB_TLABS_GROWING,
	HAB_TLABS_AUTO,
};

/* Values of tlab_bytes before there was tlab_mode. 0.4 will not have these names. */
#define HAB_TLAB_NONE	 (0ul + HAB_TLABS_NONE)
#define HAB_TLAB_GROWING (0ul + HAB_TLABS_GROWING)
#define HAB_TLAB_AUTO	 (0ul + HAB_TLABS_AUTO)

/**
 * struct hab_heap_config - configuration of a heap
 * @struct_size: sizeof(struct hab_heap_config), set by hab_heap_config_init()
 * @arena_bytes: size of the arena, reserved at once and touched as it is used; 64 KiB to 8 TiB,
 *	rounded up to whole pages; default 1 GiB. An arena of 4 MiB or more asks the kernel for huge
 *	pages, so memory becomes resident 2 MiB at a time. The first 64th of the arena, at most 16
 *	MiB, has small pages
 * @tlab_bytes: size of a TLAB of HAB_TLABS_FIXED, 256 bytes to @arena_bytes; 0: 32 KiB. A TLAB
 *	larger than a level's buffers is taken from the next level up
 * @flags: HAB_HEAP_*
 * @waste_percent: how many percent of the arena TLABs and buffers of automatic size may hold unused
 *	when the arena is nearly used up; while it is free, up to four times as much. At most 50; 0
 *	stands for 5
 * @levels: buffers between heap and TLABs as NAME=SIZE@DOMAIN, separated by commas, from the heap
 *	down, for example "plab=32M@package,clab=512K@cpu"; NULL: "clab=512K@cpu".
 *	NAME: at most 15 letters, digits, "_" or "-"; hab_heap_stats() shows it.
 *	SIZE: a number with K, M or G, or "auto": by the rate of refills, within @waste_percent.
 *	DOMAIN: cpu, core, llc, package, node or global; and cid for the lowest level, which is cpu
 *	with the module and before Linux 6.3.
 *	"none": TLABs straight from the heap. "auto": "none" for automatic TLABs, which need few
 *	refills, else "clab=auto@cpu"
 * @name: for telemetry, at most 31 printable characters; NULL: "heap"
 * @alignment: of the objects of hab_alloc(), 8 or 16 bytes; 0: 16. With 8, C's types of 16 bytes
 *	need hab_alloc_aligned(). Regions and chunks stay as they are
 * @tlab_mode: enum hab_tlab_mode
 *
 * Environment variables are the defaults of what a program leaves open: HAB_LEVELS of a @levels
 * that is NULL; HAB_TLAB (a size, "none", "growing" or "auto") of a @tlab_bytes that is 0, with
 * HAB_TLABS_FIXED; HAB_TRIM=thread or none of HAB_HEAP_TRIM_THREAD and HAB_HEAP_NO_TRIM.
 * HAB_HUGE_PAGES=0 adds HAB_HEAP_SMALL_PAGES. Two are for debugging and override the program:
 * HAB_BACKEND=device or process, and HAB_VERIFY=1, which adds HAB_HEAP_VERIFY.
 */
struct hab_heap_config {
	size_t struct_size;
	size_t arena_bytes;
	size_t tlab_bytes;
	uint32_t flags;
	uint32_t waste_percent;
	const char *levels;
	const char *name;
	uint32_t alignment;
	uint32_t tlab_mode;
};

/**
 * struct hab_chunk - a chunk, for the caller's own use; not defined if the take failed
 * @base: where it begins, aligned to 64 bytes
 * @size: its size, a multiple of 64 bytes
 * @cpu: the CPU on which the take committed
 * @domain: id of the domain of the buffer that it is from
 * @level: 0 for the heap, 1 and up for the configured levels
 */
struct hab_chunk {
	void *base;
	size_t size;
	int cpu;
	int domain;
	int level;
};

#define HAB_STATS_LEVELS   5  /* the heap and at most four levels */
#define HAB_LEVEL_NAME_LEN 16 /* with the closing NUL */

/**
 * struct hab_heap_stats - counters of a heap since its creation
 * @allocated_bytes: by hab_alloc(), with alignment
 * @chunks: chunks taken from buffers or the heap (TLABs, objects outside of TLABs, regions,
 *	hab_chunk_take())
 * @chunk_bytes: their sum
 * @foreign: chunks from a buffer that is not of the committing CPU's domain, by the hardware's CPU
 *	number; counted only with HAB_HEAP_VERIFY, and always 0. No hardware knows a cid: with that
 *	domain only the CPU of the take is compared
 * @verified: chunks that were checked for that
 * @restarts: rseq sections that were interrupted and restarted
 * @conflicts: cmpxchg that failed because another CPU of the domain moved the word
 * @tlab_refills: TLABs taken
 * @outside_allocations: objects that got a chunk of their own
 * @tlab_waste_bytes: unused bytes of retired TLABs
 * @returned_bytes: returned to the heap since the last reset: unused ends of TLABs of threads that
 *	exited
 * @refills: refills, as counted by this process
 * @refill_bytes: their sum
 * @book_refills: refills, as counted by the books
 * @book_refill_bytes: likewise
 * @resets: calls of hab_heap_reset()
 * @arena_bytes: size of the arena
 * @nr_levels: configured levels
 * @struct_size: bytes of this struct that the library knows; those behind are 0
 * @levels: since the last reset. [0] is the heap, with the name "heap": its @granted_bytes went
 *	straight to callers, its @free_bytes was never carved or is free again
 * @region_bytes: by hab_region_alloc(), with alignment; an open region's last chunk is counted when
 *	the region leaves it
 * @region_chunks: chunks that regions took
 * @listed_chunks: of these, free chunks from lists; the others are in @chunks
 * @open_chunks: chunks of regions that are open
 * @collections: times that a full heap collected the free chunks
 * @free_chunk_bytes: free chunks in lists, by the level that they are from
 * @trimmed_bytes: returned to the system by trims, those that had no memory included
 */
struct hab_heap_stats {
	uint64_t allocated_bytes;
	uint64_t chunks;
	uint64_t chunk_bytes;
	uint64_t foreign;
	uint64_t verified;
	uint64_t restarts;
	uint64_t conflicts;
	uint64_t tlab_refills;
	uint64_t outside_allocations;
	uint64_t tlab_waste_bytes;
	uint64_t returned_bytes;
	uint64_t refills;
	uint64_t refill_bytes;
	uint64_t book_refills;
	uint64_t book_refill_bytes;
	uint64_t resets;
	uint64_t arena_bytes;
	uint32_t nr_levels;
	uint32_t struct_size;
	struct {
		char name[HAB_LEVEL_NAME_LEN];
		uint64_t refills;
		uint64_t granted_bytes;
		uint64_t waste_bytes;
		uint64_t free_bytes;
	} levels[HAB_STATS_LEVELS];
	uint64_t region_bytes;
	uint64_t region_chunks;
	uint64_t listed_chunks;
	uint64_t open_chunks;
	uint64_t collections;
	uint64_t free_chunk_bytes[HAB_STATS_LEVELS];
	uint64_t trimmed_bytes;
};

/**
 * struct hab_sample - one sampled allocation
 * @address: the object
 * @size: the requested size
 * @weight: bytes that this thread has allocated since its last sample, with this object
 */
struct hab_sample {
	void *address;
	size_t size;
	uint64_t weight;
};

/* A handler may allocate; its allocations are not sampled. */
typedef void (*hab_sample_fn)(const struct hab_sample *sample, void *context);

/** hab_heap_config_init - set the defaults */
void hab_heap_config_init(struct hab_heap_config *config) HAB_NONNULL_(1);

/**
 * hab_heap_create - create a heap
 * @heap: the result
 * @config: NULL for the defaults
 *
 * Return: 0; -EINVAL for sizes, levels, names or flags out of range; -E2BIG for a larger struct
 * whose tail is not zero; -ENOMEM without memory or address space; -EOPNOTSUPP in a namespace of
 * dlmopen(); with HAB_HEAP_DEVICE also -ENODEV or the errno of opening the device.
 */
int hab_heap_create(struct hab_heap **heap, const struct hab_heap_config *config) HAB_MUST_CHECK_;

/**
 * hab_heap_destroy - free a heap and all of its memory
 * @heap: NULL is fine; no thread uses it or its objects
 */
void hab_heap_destroy(struct hab_heap *heap);

/**
 * hab_heap_reset - free all objects
 * @heap: no other thread uses it during the call
 *
 * Return: 0, or a negative errno.
 */
int hab_heap_reset(struct hab_heap *heap) HAB_NONNULL_(1);

/**
 * hab_heap_trim - return free memory to the system
 * @heap: a heap
 *
 * Returns memory of closed regions that was not used for a second: free chunks whose home is the
 * calling thread's CPU or the heap, and those of another CPU if no chunk in its list was used. The
 * close of a region does the same, once a second at most, and a reset returns what the resets of
 * the second before did not need. So only a program that stops closing regions, and has no
 * HAB_HEAP_TRIM_THREAD, needs this call. Unused parts of TLABs and buffers stay.
 *
 * Return: 0, or -EINVAL if @heap is NULL.
 */
int hab_heap_trim(struct hab_heap *heap);

/**
 * hab_alloc - memory for an object
 * @heap: a heap
 * @size: bytes; a pointer to 0 bytes must not be dereferenced
 *
 * The fast path adds to a pointer in the thread's TLAB. The memory is not zeroed after a reset.
 * With HAB_INLINE defined before this header is included, calls have the fast path inline (x86-64,
 * GCC 11 or clang 16). Source: paper, section II.
 *
 * Return: aligned to 16 bytes (see struct hab_heap_config for 8), or NULL with errno ENOMEM.
 */
void *hab_alloc(struct hab_heap *heap, size_t size) HAB_OBJECT_(2);

/*
 * The objects that follow @object are written soon. 1 KiB is as good as any distance from 256 bytes
 * to 2 KiB: 10 to 20 % more objects a second in bench/replay.
 */
static inline void hab_prefetch_(const void *object)
{
#if defined(__x86_64__) && defined(__GNUC__)
	__asm__("prefetchw 1024(%0)" : : "r"(object));
#else
	(void)object;
#endif
}

#if defined(HAB_INLINE) && defined(__x86_64__) && defined(__GNUC__)
/* The beginning of a heap, and of a thread's TLAB in it. They are part of the ABI. */
struct hab_heap_head_ {
	ptrdiff_t tlab_offset; /* of the TLAB from the thread pointer */
};
struct hab_tlab_head_ {
	uint64_t position;
	uint64_t limit;
	uint64_t mask;
};

HAB_OBJECT_(2) static inline void *hab_alloc_inline_(struct hab_heap *heap, size_t size)
{
	void *at = HAB_CAST_(char *, __builtin_thread_pointer()) +
		   HAB_CAST_(const struct hab_heap_head_ *, heap)->tlab_offset;
	struct hab_tlab_head_ *tlab = HAB_CAST_(struct hab_tlab_head_ *, at);
	uint64_t position = tlab->position, next;

	/* The carry shows that the object does not fit, for every size. */
	if (__builtin_expect(__builtin_add_overflow(size, position, &next), 0))
		return (hab_alloc)(heap, size);
	tlab->position = next | tlab->mask;
	hab_prefetch_(HAB_CAST_(void *, position + tlab->limit));
	return HAB_CAST_(void *, position + tlab->limit);
}

#define hab_alloc(heap, size) hab_alloc_inline_(heap, size)
#endif

/**
 * hab_alloc_tagged - memory for an object of a type
 * @heap: a heap
 * @size: as hab_alloc()
 * @tag: a name of the type for telemetry, which uses its first 31 characters. Must stay valid
 *	during the call; NULL for none
 *
 * Costs no more than hab_alloc(): the tag is read only if there is a sample or an event.
 *
 * Return: as hab_alloc().
 */
void *hab_alloc_tagged(struct hab_heap *heap, size_t size, const char *tag) HAB_OBJECT_(2);

/**
 * hab_set_tag - set the tag of the calling thread's allocations that name none, in all heaps
 * @tag: as hab_alloc_tagged(); must stay valid until the next call
 *
 * Return: the tag before, NULL if there was none.
 */
const char *hab_set_tag(const char *tag);

/* The same to the end of the scope; needs GNU C or C++. */
#define HAB_TAG_SCOPE(tag) \
	const char *hab_tag_before_ __attribute__((cleanup(hab_restore_tag_), unused)) = \
		hab_set_tag(tag)
static inline void hab_restore_tag_(const char **before)
{
	hab_set_tag(*before);
}

/**
 * hab_alloc_aligned - memory for an object of some alignment
 * @heap: a heap
 * @alignment: a power of two
 * @size: bytes
 *
 * Return: the object, or NULL with errno EINVAL (alignment) or ENOMEM.
 */
void *hab_alloc_aligned(struct hab_heap *heap, size_t alignment, size_t size)
	HAB_OBJECT_(3) HAB_ATTRIBUTE_(alloc_align(2));

/**
 * struct hab_region - memory of a request: objects that are freed together
 *
 * Public only so that hab_region_alloc() is inline; all fields are the library's. A region is used
 * by one thread at a time, and may be opened, used and closed by different ones. It may be
 * copied if only the copy is used from then on.
 */
struct hab_region {
	uint64_t position; /* as in a TLAB: free bytes, negated, minus 1 */
	uint64_t limit;	   /* first address behind them, plus 1 */
	uint64_t opaque[15];
};

/**
 * hab_region_open - begin a region without memory
 * @region: the region. It must not be open: its chunks would stay taken until the heap's reset
 * @heap: the heap that its memory is from; regions may be nested, and a heap may have any number
 *
 * Return: 0, or -EINVAL if an argument is NULL.
 */
int hab_region_open(struct hab_region *region, struct hab_heap *heap);

/* The part of hab_region_alloc() that is not inline. */
void *hab_region_alloc_slow(struct hab_region *region, size_t size) HAB_OBJECT_(2);

/**
 * hab_region_alloc - memory for an object of a region
 * @region: an open region
 * @size: bytes; a pointer to 0 bytes must not be dereferenced
 *
 * The memory is not zeroed.
 *
 * Return: 16-byte aligned, or NULL with errno ENOMEM.
 */
HAB_OBJECT_(2) static inline void *hab_region_alloc(struct hab_region *region, size_t size)
{
	uint64_t position = region->position, next;

	/* The carry shows that the object does not fit, for every size. */
	if (__builtin_expect(__builtin_add_overflow(size, position, &next), 0))
		return hab_region_alloc_slow(region, size);
	region->position = next | 15;
	return HAB_CAST_(void *, position + region->limit);
}

/**
 * hab_region_close - free all objects of a region
 * @region: an open region; afterwards it is open and without memory, as by hab_region_open()
 *
 * Its chunks go home: to lists of free chunks, from which other regions take them. A region that
 * was open during hab_heap_reset() has lost its objects: it is closed or opened again before its
 * next allocation. One that is open when the heap is destroyed is not closed.
 */
void hab_region_close(struct hab_region *region) HAB_NONNULL_(1);

/**
 * hab_chunk_take - take a chunk from the buffer of the CPU that the thread is on
 * @heap: a heap
 * @size: bytes, rounded up to a multiple of 64; above the lowest buffer's size the next level
 *	serves (paper, Listing 1)
 * @chunk: the result
 *
 * For runtimes that keep their own TLABs.
 *
 * Return: 0, -EINVAL for size 0, -ENOMEM.
 */
int hab_chunk_take(struct hab_heap *heap, size_t size, struct hab_chunk *chunk)
	HAB_MUST_CHECK_ HAB_NONNULL_(1, 3);

/**
 * hab_chunk_take_base - as hab_chunk_take(), for runtimes that need no more than the chunk's base
 * @heap: a heap
 * @size: as hab_chunk_take()
 *
 * A seventh fewer instructions. The chunk's size is @size, rounded up to a multiple of 64.
 *
 * Return: where the chunk begins, aligned to 64 bytes, or NULL with errno EINVAL (size 0) or
 * ENOMEM.
 */
void *hab_chunk_take_base(struct hab_heap *heap, size_t size)
	HAB_MUST_CHECK_ HAB_NONNULL_(1) HAB_ATTRIBUTE_(assume_aligned(64));

/**
 * hab_heap_stats - counters
 * @heap: a heap
 * @stats: the result; exact if no other thread uses the heap meanwhile
 *
 * The macro passes the size of the program's struct. The function of this name, for other languages
 * and programs that were built before 0.3, fills in the struct of 0.2.
 *
 * Return: 0 or a negative errno.
 */
int hab_heap_stats(struct hab_heap *heap, struct hab_heap_stats *stats) HAB_NONNULL_(1, 2);
int hab_heap_stats_sized(struct hab_heap *heap, struct hab_heap_stats *stats, size_t size)
	HAB_NONNULL_(1, 2);
#define hab_heap_stats(heap, stats) hab_heap_stats_sized(heap, stats, sizeof(*(stats)))

/** hab_heap_backend - "device" or "process" */
const char *hab_heap_backend(const struct hab_heap *heap)
	HAB_NONNULL_(1) HAB_ATTRIBUTE_(returns_nonnull);

/**
 * hab_heap_backend_reason - why the heap has that backend, and how it takes chunks
 *
 * Return: a sentence; valid as long as the heap.
 */
const char *hab_heap_backend_reason(const struct hab_heap *heap)
	HAB_NONNULL_(1) HAB_ATTRIBUTE_(returns_nonnull);

/**
 * hab_set_sampling_interval - set the mean distance of samples
 * @heap: a heap
 * @mean_bytes: mean of the random distance in bytes allocated by one thread; 0 samples every
 *	allocation; more than 8 TiB counts as that
 *
 * As with JVMTI's SetHeapSamplingInterval, a thread may use the new interval late: from its next
 * sample on, or once it has allocated 4 MiB and one more TLAB.
 *
 * Without a call the interval follows the rate of the process's samples, between 4 KiB and 64 MiB,
 * or has the value of the module's sysfs file sampling_interval. With a handler it is at least 512
 * KiB.
 *
 * Return: 0, or -EINVAL for a negative interval.
 */
int hab_set_sampling_interval(struct hab_heap *heap, int64_t mean_bytes) HAB_NONNULL_(1);

/**
 * hab_set_sample_handler - set the function that is called for each sample
 * @heap: a heap
 * @handler: called by the allocating thread; NULL ends sampling
 * @context: its second argument
 *
 * A call of the handler before may end after the return. Each pair of handler and context takes
 * some memory until the heap is destroyed.
 *
 * Return: 0, or -ENOMEM: nothing has changed.
 */
int hab_set_sample_handler(struct hab_heap *heap, hab_sample_fn handler, void *context)
	HAB_NONNULL_(1);

#ifdef __cplusplus
}
#endif

#endif /* HAB_H */
