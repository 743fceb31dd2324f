/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note */
/*
 * hab: per-CPU allocation buffers. The interface of /dev/hab.
 *
 * An open file has at most one heap. A process creates the heap with HAB_IOC_CREATE and then maps
 * three areas of the same file:
 *
 *   HAB_MAP_INFO   PROT_READ, MAP_SHARED               struct hab_info
 *   HAB_MAP_WORDS  PROT_READ|PROT_WRITE, MAP_SHARED    one word per domain
 *   HAB_MAP_ARENA  PROT_READ|PROT_WRITE, MAP_PRIVATE   the heap's memory
 *
 * The device deals in offsets and never touches the arena: other memory of that length serves, too.
 *
 * A word is the whole state of a lowest-level buffer (see HAB_WORD()). User code takes a chunk by
 * moving the word of its own domain inside a restartable sequence. When the word has too little
 * left, user code calls HAB_IOC_REFILL. The kernel trusts no word: its own books record what was
 * granted.
 *
 * Errors of all commands: ENOTTY for an unknown command; EINVAL for a struct whose size field is
 * smaller than its first version, for unknown flags and for non-zero reserved fields; E2BIG for a
 * larger struct whose tail is not zero, and for one above a page; EFAULT for memory that cannot be
 * read or written; EBADF for a file that is not open for writing, but for HAB_IOC_VERSION. All but
 * that and HAB_IOC_CREATE are EOPNOTSUPP until the file has a heap.
 */
#ifndef _UAPI_HAB_H
#define _UAPI_HAB_H

#include <linux/ioctl.h>
#include <linux/types.h>

#define HAB_ABI_VERSION 1
#define HAB_INFO_MAGIC	0x31626168u /* "hab1", little endian */

/* Sizes and addresses inside the arena are counted in granules. */
#define HAB_GRANULE_SHIFT 6
#define HAB_GRANULE	  (1ull << HAB_GRANULE_SHIFT)

/*
 * The word: the upper 26 bits are the number of free granules, the lower 38 bits (@top) the granule
 * at which they start. Zero is the empty buffer. Taking n granules, at most HAB_WORD_FREE_MAX, is
 * one subtraction: word - n * HAB_WORD_STEP. It borrows if and only if fewer are free.
 */
#define HAB_WORD_TOP_BITS   38
#define HAB_WORD_STEP	    ((1ull << HAB_WORD_TOP_BITS) - 1)
#define HAB_WORD_FREE_MAX   ((1ull << (64 - HAB_WORD_TOP_BITS)) - 1)
#define HAB_WORD(top, free) (((__u64)(free) << HAB_WORD_TOP_BITS) | (top))
#define HAB_WORD_TOP(word)  (HAB_WORD_STEP & (word))
#define HAB_WORD_FREE(word) ((word) >> HAB_WORD_TOP_BITS)
#define HAB_WORD_STRIDE	    64 /* bytes between two domains' words */

#define HAB_MAX_LEVELS	    4  /* between the heap and the TLABs */
#define HAB_NAME_LEN	    32 /* with the closing NUL */
#define HAB_STACK_DEPTH	    64 /* frames of a sample */

#define HAB_ARENA_MIN	    (1ull << 16)
#define HAB_ARENA_MAX	    (1ull << 43)
#define HAB_BUFFER_MIN	    (1ull << 10)
#define HAB_BUFFER_MAX	    (1ull << 30)

#define HAB_DOMAIN_NONE	    0xffffffffu /* not known yet: HAB_IOC_REFILL finds it */

/* Offsets for mmap(). */
#define HAB_MAP_INFO  0x000000000000ull
#define HAB_MAP_WORDS 0x010000000000ull
#define HAB_MAP_ARENA 0x020000000000ull

/**
 * enum hab_domain_kind - the CPUs that share a buffer
 * @HAB_DOMAIN_CPU: one hardware thread
 * @HAB_DOMAIN_CORE: the SMT siblings of a core
 * @HAB_DOMAIN_LLC: the CPUs of one last-level cache
 * @HAB_DOMAIN_PACKAGE: a processor (socket)
 * @HAB_DOMAIN_NODE: a NUMA node
 * @HAB_DOMAIN_GLOBAL: all CPUs
 * @HAB_DOMAIN_KINDS: the number of kinds
 */
enum hab_domain_kind {
	HAB_DOMAIN_CPU,
	HAB_DOMAIN_CORE,
	HAB_DOMAIN_LLC,
	HAB_DOMAIN_PACKAGE,
	HAB_DOMAIN_NODE,
	HAB_DOMAIN_GLOBAL,
	HAB_DOMAIN_KINDS,
};

/**
 * struct hab_level - one level of buffers
 * @bytes: size of a buffer, a multiple of HAB_GRANULE
 * @kind: enum hab_domain_kind
 * @flags: HAB_LEVEL_*
 */
struct hab_level {
	__u64 bytes;
	__u32 kind;
	__u32 flags;
};

/*
 * The level's blocks follow the rate of refills. A buffer's first block has 1/64 of @bytes, at
 * least 4096 bytes, and what the request and the level below need. The next one has twice the size
 * if a block lasted for less than 256 times what its refill took, and half of it if it lasted for
 * more than 16 times that. The largest is @bytes when the arena is nearly used up, and up to 4
 * times @bytes before, but at most 1/16 of what is free.
 */
#define HAB_LEVEL_GROWING 0x1u

/**
 * struct hab_ioc_version - argument of HAB_IOC_VERSION
 * @size: in: sizeof(struct hab_ioc_version)
 * @abi: out: HAB_ABI_VERSION of the module
 * @nr_cpus: out: CPU numbers are below this
 * @features: out: HAB_FEATURE_*
 */
struct hab_ioc_version {
	__u32 size;
	__u32 abi;
	__u32 nr_cpus;
	__u32 features;
};

#define HAB_FEATURE_BTF	    0x1u /* BPF programs can call the throttler */
#define HAB_FEATURE_REFILL2 0x2u /* struct hab_ioc_refill has @restarts and @waste_bytes */
#define HAB_FEATURE_REPORT2 0x4u /* struct hab_ioc_report has @interval to @nr_frames */
#define HAB_FEATURE_WIPED   0x8u /* a child by fork() inherits both areas, the words as zeros */

/**
 * struct hab_ioc_create - argument of HAB_IOC_CREATE
 * @size: in: sizeof(struct hab_ioc_create)
 * @flags: in: 0
 * @arena_bytes: in: HAB_ARENA_MIN to HAB_ARENA_MAX, multiple of the page size
 * @nr_levels: in: 1 to HAB_MAX_LEVELS
 * @reserved: in: 0
 * @levels: in: from the one next to the heap to the one next to the TLABs; each at most as large as
 *	the one before, the first at most the arena
 * @name: in: for telemetry, NUL-terminated, printable ASCII
 * @heap_id: out: unique while the module is loaded
 * @info_bytes: out: length to map at HAB_MAP_INFO
 * @words_bytes: out: length to map at HAB_MAP_WORDS
 *
 * EBUSY if this file has a heap already; EINVAL for sizes, kinds of domains, a number of levels or
 * a name other than described; ENOMEM if there is no memory or the arena is above HAB_ARENA_MAX;
 * ENOSPC if the caller's owner has too many heaps (module parameter max_heaps_per_user), which is
 * never so with CAP_SYS_RESOURCE. The owner is the user; in a user namespace the user who made the
 * outermost one, or if root made it, that namespace as a whole.
 */
struct hab_ioc_create {
	__u32 size;
	__u32 flags;
	__u64 arena_bytes;
	__u32 nr_levels;
	__u32 reserved;
	struct hab_level levels[HAB_MAX_LEVELS];
	char name[HAB_NAME_LEN];
	__u64 heap_id;
	__u64 info_bytes;
	__u64 words_bytes;
};

/**
 * struct hab_ioc_refill - argument of HAB_IOC_REFILL
 * @size: in: sizeof(struct hab_ioc_refill)
 * @flags: in: 0
 * @min_bytes: in: the smallest chunk that serves, at least 1
 * @want_bytes: in: the wanted chunk, at least @min_bytes
 * @chunk_offset: out: where in the arena the chunk begins
 * @chunk_bytes: out: its size, a multiple of HAB_GRANULE
 * @granted_bytes: out: the block that the lowest buffer got from the levels above, or the chunk of
 *	a request larger than that buffer; 0 if the buffer had enough left
 * @sample_id: out: not 0 if the refill was kept as a sample: the caller may send its stack with
 *	HAB_IOC_STACK
 * @cpu: out: the CPU that the kernel ran on, preemption off, when it took the chunk
 * @domain: out: id of the domain of the buffer that the chunk is from
 * @level: out: 0 for the heap, else the configured level, counted from 1
 * @reserved: in: 0
 * @restarts: in: for telemetry: restarts of the calling thread since its last call that returned
 *	@granted_bytes
 * @waste_bytes: in: likewise, unused bytes of its retired TLABs
 *
 * Takes a chunk from the lowest buffer of the CPU it runs on, and refills that buffer first if it
 * has too little left. EINVAL if @min_bytes is 0 or above @want_bytes; ENOMEM if the arena is used
 * up; EAGAIN if other CPUs of the domain kept moving the word, or during a reset. With EFAULT
 * nothing is taken: if the results cannot be written the chunk is returned, as by HAB_IOC_RETURN.
 */
struct hab_ioc_refill {
	__u32 size;
	__u32 flags;
	__u64 min_bytes;
	__u64 want_bytes;
	__u64 chunk_offset;
	__u64 chunk_bytes;
	__u64 granted_bytes;
	__u64 sample_id;
	__u32 cpu;
	__u32 domain;
	__u32 level;
	__u32 reserved;
	__u64 restarts;
	__u64 waste_bytes;
};

/**
 * struct hab_ioc_stack - argument of HAB_IOC_STACK
 * @size: in: sizeof(struct hab_ioc_stack)
 * @nr_frames: in: 1 to HAB_STACK_DEPTH
 * @sample_id: in: of this thread's last refill or report
 * @frames: in: pointer to @nr_frames return addresses (__u64), leaf first
 *
 * The stack as the thread's own unwinder finds it; the kernel cannot walk the stacks of code built
 * without frame pointers. Listeners ignore a stack that is not of this thread's last kept sample.
 * EINVAL for no or too many frames or an id of 0; any other id is accepted.
 */
struct hab_ioc_stack {
	__u32 size;
	__u32 nr_frames;
	__u64 sample_id;
	__u64 frames;
};

/**
 * struct hab_level_stats - one level of struct hab_ioc_stats
 * @refills: refills of its buffers
 * @granted_bytes: bytes of blocks that its buffers got
 * @waste_bytes: bytes that its buffers had left and the books could not keep as free extents
 * @free_bytes: bytes free in its buffers now
 *
 * Level 0 is the heap: @granted_bytes went straight to callers, @waste_bytes is waste of what they
 * returned, @free_bytes was never carved or is in free extents.
 */
struct hab_level_stats {
	__u64 refills;
	__u64 granted_bytes;
	__u64 waste_bytes;
	__u64 free_bytes;
};

/**
 * struct hab_ioc_stats - argument of HAB_IOC_STATS
 * @size: in: sizeof(struct hab_ioc_stats)
 * @flags: in: 0
 * @refills: out: refills since the heap was made (a reset does not clear this)
 * @refill_bytes: out: the sum of their @granted_bytes
 * @resets: out: calls of HAB_IOC_RESET
 * @invalid_words: out: words found outside of what the kernel had granted
 * @returned_bytes: out: bytes of HAB_IOC_RETURN since the last reset
 * @levels: out: since the last reset
 */
struct hab_ioc_stats {
	__u32 size;
	__u32 flags;
	__u64 refills;
	__u64 refill_bytes;
	__u64 resets;
	__u64 invalid_words;
	__u64 returned_bytes;
	struct hab_level_stats levels[HAB_MAX_LEVELS + 1];
};

/**
 * struct hab_ioc_return - argument of HAB_IOC_RETURN
 * @size: in: sizeof(struct hab_ioc_return)
 * @flags: in: 0
 * @offset: in: where in the arena it begins, a multiple of HAB_GRANULE
 * @bytes: in: its size, a multiple of HAB_GRANULE
 *
 * Returns memory that the caller has and does not need: the unused end of a thread's last chunk, or
 * what was left in a buffer whose word the caller emptied. It becomes a free extent, and is granted
 * again to any domain. EINVAL if it is empty, is not whole granules, reaches beyond what was carved
 * from the arena since the last reset, or overlaps a free extent, and during a reset. Nothing else
 * is checked: the books do not know which chunks are in use, nor which free memory became waste. A
 * caller that returns other memory than its own gets memory of its own heap twice.
 */
struct hab_ioc_return {
	__u32 size;
	__u32 flags;
	__u64 offset;
	__u64 bytes;
};

/* The sizes of the structs, version by version. */
#define HAB_VERSION_SIZE_VER0 16
#define HAB_CREATE_SIZE_VER0  144
#define HAB_REFILL_SIZE_VER0  72
#define HAB_REFILL_SIZE_VER1  88 /* @restarts, @waste_bytes */
#define HAB_STACK_SIZE_VER0   24
#define HAB_STATS_SIZE_VER0   208
#define HAB_RETURN_SIZE_VER0  24
#define HAB_REPORT_SIZE_VER0  88
#define HAB_REPORT_SIZE_VER1  112 /* @interval to @reserved2 */

#define HAB_IOC_TYPE 0xBB

/* Each struct has a size field, so the command numbers have no size. */
#define HAB_IOC_VERSION _IO(HAB_IOC_TYPE, 0x00)
#define HAB_IOC_CREATE	_IO(HAB_IOC_TYPE, 0x01)
#define HAB_IOC_REFILL	_IO(HAB_IOC_TYPE, 0x02)
#define HAB_IOC_RESET	_IO(HAB_IOC_TYPE, 0x03) /* no argument: 0 */
#define HAB_IOC_STATS	_IO(HAB_IOC_TYPE, 0x04)
#define HAB_IOC_STACK	_IO(HAB_IOC_TYPE, 0x05)
#define HAB_IOC_RETURN	_IO(HAB_IOC_TYPE, 0x06)
#define HAB_IOC_REPORT	_IO(HAB_IOC_TYPE, 0x07)

/**
 * struct hab_info - start of the read-only area at HAB_MAP_INFO
 * @magic: HAB_INFO_MAGIC
 * @abi: HAB_ABI_VERSION
 * @heap_id: as in struct hab_ioc_create
 * @arena_bytes: as in struct hab_ioc_create
 * @nr_cpus: CPU numbers are below this
 * @nr_levels: as in struct hab_ioc_create
 * @listeners: bits HAB_LISTENER(kind) of events that have listeners: only these need a
 *	HAB_IOC_REPORT. Changes at any moment
 * @domains_offset: where __u32 domain[nr_levels][nr_cpus] begins, in bytes
 * @levels: as in struct hab_ioc_create
 * @sampling_interval: mean distance in bytes of one thread's HAB_EVENT_SAMPLE, 0: every allocation.
 *	It is the process's own, follows the rate of its samples, and changes at any moment
 * @next_is_kept: 1: the next HAB_EVENT_SAMPLE of the process will be kept, unless the throttler's
 *	window ends before: its report should have the stack, which saves HAB_IOC_STACK. Changes at
 *	any moment
 * @reserved: 0
 *
 * The word of a CPU is at HAB_MAP_WORDS + domain * HAB_WORD_STRIDE, with the CPU's domain at the
 * last level. HAB_IOC_REFILL fills in entries that are HAB_DOMAIN_NONE. Other entries never change.
 */
struct hab_info {
	__u32 magic;
	__u32 abi;
	__u64 heap_id;
	__u64 arena_bytes;
	__u32 nr_cpus;
	__u32 nr_levels;
	__u32 listeners;
	__u32 domains_offset;
	struct hab_level levels[HAB_MAX_LEVELS];
	__u64 sampling_interval;
	__u32 next_is_kept;
	__u32 reserved;
};

#define HAB_LISTENER(kind) (1u << (kind))

#define HAB_SAMPLING_INTERVAL_MAX HAB_ARENA_MAX /* bytes */

#define HAB_TAG_LEN		  32 /* with the closing NUL */
#define HAB_PARTS_MAX		  64

/**
 * enum hab_event_kind - kinds of events, after the JDK's
 * @HAB_EVENT_REFILL: a lowest buffer got a block, or a caller a large chunk
 * @HAB_EVENT_TLAB: an object was put into a new TLAB (jdk.ObjectAllocationInNewTLAB)
 * @HAB_EVENT_OUTSIDE: an object got a chunk of its own (jdk.ObjectAllocationOutsideTLAB)
 * @HAB_EVENT_SAMPLE: a thread has allocated about the sampling interval (JVMTI's
 *	SampledObjectAlloc)
 * @HAB_EVENT_KINDS: the number of kinds
 */
enum hab_event_kind {
	HAB_EVENT_REFILL,
	HAB_EVENT_TLAB,
	HAB_EVENT_OUTSIDE,
	HAB_EVENT_SAMPLE,
	HAB_EVENT_KINDS,
};

/**
 * struct hab_ioc_report - argument of HAB_IOC_REPORT
 * @size: in: sizeof(struct hab_ioc_report)
 * @kind: in: HAB_EVENT_TLAB, HAB_EVENT_OUTSIDE or HAB_EVENT_SAMPLE
 * @bytes: in: the bytes that the event counts for, so that the sum over all events of a kind is a
 *	total. TLAB: its size; outside: the object with its padding; sample: allocated by the thread
 *	since its last sample
 * @chunk_bytes: in: as @bytes; of a sample the bytes that the object takes
 * @object_bytes: in: requested size of the object
 * @allocated_bytes: in: allocated by the thread from this heap so far
 * @sample_id: out: not 0 if the event was kept as a sample: the caller may send its stack with
 *	HAB_IOC_STACK
 * @parts: in: the throttler counts the event as so many, 1 to HAB_PARTS_MAX, each of @bytes /
 *	@parts: an object outside of TLABs counts as often as the TLABs that would have held it;
 *	other events count as 1
 * @reserved: in: 0
 * @tag: in: the caller's name for the object's type, or ""; NUL-terminated, printable ASCII
 * @interval: in: of a sample: the mean distance in bytes that it was drawn with, 0: every
 *	allocation. An object that takes n bytes was sampled with probability 1 - exp(-n /
 *	@interval). Above HAB_SAMPLING_INTERVAL_MAX it counts as that, and the rest as uncounted
 *	bytes
 * @frames: in: pointer to @nr_frames return addresses (__u64), leaf first: the stack, if it comes
 *	with the report
 * @nr_frames: in: 0: it does not; at most HAB_STACK_DEPTH
 * @reserved2: in: 0
 *
 * Reports an allocation of the calling thread to the listeners, if there are any. When the call
 * returns, @sampling_interval and @next_is_kept of the heap's struct hab_info are up to date.
 * EINVAL for another kind, no bytes, a sample without @chunk_bytes, a tag that is not printable, or
 * parts or frames out of range, also if there are no listeners.
 */
struct hab_ioc_report {
	__u32 size;
	__u32 kind;
	__u64 bytes;
	__u64 chunk_bytes;
	__u64 object_bytes;
	__u64 allocated_bytes;
	__u64 sample_id;
	__u32 parts;
	__u32 reserved;
	char tag[HAB_TAG_LEN];
	__u64 interval;
	__u64 frames;
	__u32 nr_frames;
	__u32 reserved2;
};

#endif /* _UAPI_HAB_H */
