/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The live samples of the process: where their objects are, and their slots in the channel.
 *
 * The objects are aligned to pages. So free() looks for an address in the table only if its low
 * bits are 0, and most often finds that the bucket of the address is empty, by one load.
 *
 * An object of glibc of HAB_LIVE_LARGE bytes or more is where its malloc() has put it, and free()
 * knows it by its size. glibc cuts an aligned object out of a larger free range, so what one leaves
 * holds no other of its size: heaps of programs grew to seven times their size.
 *
 * Nothing takes a lock. An address is entered before the program gets the object, and taken out by
 * its free; of two that take out the same entry, one succeeds.
 *
 * If the table of the channel is full, the step is doubled, and about half of the live samples are
 * dropped while other threads enter and free theirs. A dropped object is an ordinary one from then
 * on.
 *
 * A free that does not come by here leaves its entry behind: that of a plugin which was loaded with
 * RTLD_DEEPBIND reaches libc alone. A new object may then be at the address. So nothing that an
 * entry says is needed to keep the content of an object, and a new entry replaces it.
 */
#ifndef HAB_LIB_LIVE_H
#define HAB_LIB_LIVE_H

#include <stdbool.h>

#include "wire/channel.h"

#define HAB_LIVE_PAGE	     4096ul
#ifndef HAB_LIVE_BUCKET_BITS /* tests have fewer */
#define HAB_LIVE_BUCKET_BITS 14
#endif
#define HAB_LIVE_BUCKETS     (1u << HAB_LIVE_BUCKET_BITS)
#define HAB_LIVE_WAYS	     4u
#define HAB_LIVE_LARGE	     4096ul /* then at most one begins in a page, and a bucket has room */

/**
 * struct hab_live_object - a live sample
 * @sample_id: as in its record
 * @address: where it is
 * @asked: bytes that the program asked for
 * @usable: bytes that malloc_usable_size() answers
 * @room: the allocator's usable bytes; 0 for a mapping
 * @before: usable bytes of its pieces before the one that was sampled, see channel.h
 * @piece: usable bytes of that piece; this and the next without what the object shrank by
 * @drawn: bytes that were drawn for the piece
 * @point: which of @drawn is the sample point, from 1. The sample is live as long as the object has
 *	that byte: then a piece of n bytes is live with the probability of a new one of n bytes
 * @added_steps: as in its slot, in usable bytes
 * @reported: bytes that otel_memory:alloc says that it stands for; 0: it was not reported
 * @mapped: it is memory that the program has mapped, and none of the allocator's
 */
struct hab_live_object {
	u64 sample_id;
	u64 address;
	u64 asked;
	u64 usable;
	u64 room;
	u64 before;
	u64 piece;
	u64 drawn;
	u64 point;
	u64 added_steps;
	u64 reported;
	bool mapped;
};

/**
 * struct hab_live_table - all of them; zeroed at first
 * @used: number of entries of each bucket, with those that are being entered or taken out
 * @entries: 0, or the object's address times 256 plus its slot: multiples of 16 leave room for it
 * @objects: by slot
 * @slots: a bit for each slot that is taken
 * @mapped: a bit for each slot of a live mapping
 * @step: the channel's live_step
 * @scanning: not 0: a thread doubles the step
 * @channel: of the connection that all this is of; NULL: not connected
 */
struct hab_live_table {
	unsigned char used[HAB_LIVE_BUCKETS];
	u64 entries[HAB_LIVE_BUCKETS * HAB_LIVE_WAYS];
	struct hab_live_object objects[HAB_CHANNEL_LIVE_SLOTS];
	u64 slots[HAB_CHANNEL_LIVE_SLOTS / 64];
	u64 mapped[HAB_CHANNEL_LIVE_SLOTS / 64];
	u64 step;
	u32 scanning;
	struct hab_channel *channel;
};

/* @used of the table, or zeros as long as there is none. */
extern const unsigned char *hab_live_used __attribute__((visibility("hidden")));

/* The word before each object of the allocator is its size, with flags in the low bits. */
extern bool hab_live_reads_sizes __attribute__((visibility("hidden")));

/* true: an object of @size bytes can be live wherever it is. */
static inline bool hab_live_is_large(size_t size)
{
	return hab_live_reads_sizes && size >= HAB_LIVE_LARGE;
}

/* true: free() looks for an object at @p in the table. */
static inline bool hab_live_is_found(const void *p)
{
	if (__builtin_expect(!((uintptr_t)p % HAB_LIVE_PAGE), 0))
		return true;
	if (__builtin_expect(!hab_live_reads_sizes, 0))
		return false;
	return __builtin_expect(READ_ONCE(((const size_t *)p)[-1]) >= HAB_LIVE_LARGE, 0);
}

static inline u32 hab_live_bucket(const void *p)
{
	return (uintptr_t)p / HAB_LIVE_PAGE * HAB_MIX_STEP >> (64 - HAB_LIVE_BUCKET_BITS);
}

/* false: no live sample has the address @p, which is an object of the caller's or NULL. */
static inline bool hab_live_may_have(const void *p)
{
	if (!hab_live_is_found(p) || !READ_ONCE(hab_live_used[hab_live_bucket(p)]))
		return false;
	/* Pairs with the fence in write_object(): there is a table, and hab_client leads to it. */
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	return true;
}

/**
 * hab_live_claim - get a slot for a new sample
 * @table: the process's
 * @channel: mapped
 * @sample_id: of the sample
 *
 * Return: a slot, or -1 if the sample will not be live.
 */
int hab_live_claim(struct hab_live_table *table, struct hab_channel *channel, u64 sample_id);

/*
 * Gives back a slot that was claimed, and is in no entry. Does nothing in a child by fork() from a
 * signal handler: the slot is of its parent's table, and @channel is another one or NULL.
 */
void hab_live_release(struct hab_live_table *table, struct hab_channel *channel, int slot);

/**
 * hab_live_enter - make a sample live, or live again at a new address; report it
 * @table: the process's
 * @channel: mapped
 * @slot: claimed
 * @p: the object, for which hab_live_is_found(); the program does not have it yet
 * @object: copied, with @p as its address
 *
 * An entry of the same address is replaced. The slot is released if the sample cannot become live.
 */
void hab_live_enter(struct hab_live_table *table, struct hab_channel *channel, int slot,
		    const void *p, const struct hab_live_object *object);

/**
 * hab_live_resize - a live object has another size
 * @object: gets it
 * @asked: as the program asked for
 * @usable: its usable size
 * @step: the table's
 *
 * Return: false if it has lost its sample point.
 */
bool hab_live_resize(struct hab_live_object *object, u64 asked, u64 usable, u64 step);

/**
 * hab_live_find - the live sample of an object
 * @table: the process's
 * @p: an object of the caller's
 * @object: gets its copy
 *
 * Return: its slot, or -1 if it has none.
 */
int hab_live_find(const struct hab_live_table *table, const void *p,
		  struct hab_live_object *object);

/**
 * hab_live_take - take the entry of an object out; report its end
 * @table: the process's
 * @p: an object of the caller's, which is going to be freed or moved
 *
 * Return: its slot, which the caller releases or enters again; -1 if it has none.
 */
int hab_live_take(struct hab_live_table *table, const void *p);

/**
 * hab_live_find_mapping - the next live mapping that has some of a range of addresses
 * @table: the process's
 * @slot: where to begin: 0, or behind the one that was found last
 * @first: first address
 * @end: address behind the last
 * @object: gets its copy
 *
 * Return: its slot, or -1 if there is no other.
 */
int hab_live_find_mapping(const struct hab_live_table *table, int slot, u64 first, u64 end,
			  struct hab_live_object *object);

/* Takes all entries out: frees were not seen for a while. @channel: mapped. */
void hab_live_drop_all(struct hab_live_table *table, struct hab_channel *channel);

#endif /* HAB_LIB_LIVE_H */
