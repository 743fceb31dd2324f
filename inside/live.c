// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The live samples of the process, see live.h.
 *
 * An entry is one word, so a compare-and-swap enters it and takes it out. What is known of an
 * object is in @objects, which belongs to the thread that has claimed the slot or taken the entry.
 */
#include "inside/live.h"
#include "inside/usdt.h"

#define SLOT_MASK 0xfffull

typedef u64 __attribute__((may_alias)) object_word;

_Static_assert(!(sizeof(struct hab_live_object) % sizeof(object_word)), "it is copied by words");

_Static_assert(HAB_CHANNEL_LIVE_SLOTS <= SLOT_MASK + 1, "a slot fits the low bits of an entry");

static const unsigned char no_entries[HAB_LIVE_BUCKETS];
const unsigned char *hab_live_used = no_entries;
bool hab_live_reads_sizes;

/* The upper 8 bits of an address are 0, or a tag. */
static u64 entry_of(const void *p, int slot)
{
	return (u64)(uintptr_t)p << 8 | (u64)slot;
}

static int find_slot(struct hab_live_table *table)
{
	u64 found, word;
	u32 i;

	for (i = 0; i < HAB_CHANNEL_LIVE_SLOTS / 64; i++) {
		word = READ_ONCE(table->slots[i]);
		while (~word) {
			found = hab_word_cmpxchg(&table->slots[i], word, word | (word + 1));
			if (found == word)
				return (int)(i * 64) + __builtin_ctzll(~word);
			word = found;
		}
	}
	return -1;
}

void hab_live_release(struct hab_live_table *table, struct hab_channel *channel, int slot)
{
	if (!channel || READ_ONCE(table->channel) != channel)
		return;
	WRITE_ONCE(hab_channel_live(channel)[slot].sample_id, 0);
	__atomic_fetch_and(&table->mapped[slot / 64], ~(1ull << slot % 64), __ATOMIC_RELAXED);
	/* The next one to claim the slot finds its sample_id at 0. */
	__atomic_fetch_and(&table->slots[slot / 64], ~(1ull << slot % 64), __ATOMIC_RELEASE);
}

static bool take_entry(struct hab_live_table *table, u32 at, u64 entry)
{
	if (hab_word_cmpxchg(&table->entries[at], entry, 0) != entry)
		return false;
	__atomic_fetch_sub(&table->used[at / HAB_LIVE_WAYS], 1, __ATOMIC_RELAXED);
	/* Before the allocator can give the address to another object. */
	if (table->objects[entry & SLOT_MASK].reported)
		hab_usdt_free((void *)table->objects[entry & SLOT_MASK].address);
	return true;
}

/* Drops the live samples whose sample_id is no multiple of @step; 0: all. */
static void drop(struct hab_live_table *table, struct hab_channel *channel, u64 step)
{
	u64 entry;
	int slot;
	u32 at;

	for (at = 0; at < HAB_LIVE_BUCKETS * HAB_LIVE_WAYS; at++) {
		entry = READ_ONCE(table->entries[at]);
		slot = (int)(entry & SLOT_MASK);
		if (entry && (!step || READ_ONCE(table->objects[slot].sample_id) % step) &&
		    take_entry(table, at, entry))
			hab_live_release(table, channel, slot);
	}
}

void hab_live_drop_all(struct hab_live_table *table, struct hab_channel *channel)
{
	drop(table, channel, 0);
}

/* Returns false if another thread is about to do it. */
static bool double_step(struct hab_live_table *table, struct hab_channel *channel, u64 step)
{
	if (__atomic_exchange_n(&table->scanning, 1, __ATOMIC_ACQUIRE))
		return false;
	if (READ_ONCE(table->step) == step) {
		WRITE_ONCE(table->step, step * 2);
		WRITE_ONCE(channel->live_step, step * 2);
		/* Pairs with the fence in hab_live_enter(): one sees the other's store. */
		__atomic_thread_fence(__ATOMIC_SEQ_CST);
		drop(table, channel, step * 2);
	}
	/* Pairs with the exchange above: the next finds the step that is in the channel. */
	hab_store_release(&table->scanning, 0);
	return true;
}

int hab_live_claim(struct hab_live_table *table, struct hab_channel *channel, u64 sample_id)
{
	u64 step = READ_ONCE(table->step);
	int slot;

	/* 0 in a child by fork() from a signal handler: the table is empty. */
	while (step && !(sample_id % step)) {
		slot = find_slot(table);
		if (slot >= 0)
			return slot;
		if (!double_step(table, channel, step))
			break;
		step = READ_ONCE(table->step);
	}
	return -1;
}

static int find_entry(const struct hab_live_table *table, const void *p, u32 *at)
{
	u32 first = hab_live_bucket(p) * HAB_LIVE_WAYS;
	u64 entry;

	for (*at = first; *at < first + HAB_LIVE_WAYS; ++*at) {
		entry = READ_ONCE(table->entries[*at]);
		if (p && (entry & ~SLOT_MASK) == entry_of(p, 0))
			return (int)(entry & SLOT_MASK);
	}
	return -1;
}

int hab_live_take(struct hab_live_table *table, const void *p)
{
	u32 at;
	int slot = find_entry(table, p, &at);

	return slot >= 0 && take_entry(table, at, entry_of(p, slot)) ? slot : -1;
}

/* Another thread may write it meanwhile. */
static void read_object(const struct hab_live_table *table, int slot,
			struct hab_live_object *object)
{
	const object_word *from = (const object_word *)&table->objects[slot];
	object_word *to = (object_word *)object;
	u32 i;

	for (i = 0; i < sizeof(*object) / sizeof(*to); i++)
		to[i] = READ_ONCE(from[i]);
}

int hab_live_find(const struct hab_live_table *table, const void *p, struct hab_live_object *object)
{
	u32 at;
	int slot = find_entry(table, p, &at);

	if (slot < 0)
		return -1;
	read_object(table, slot, object);
	/* Another thread that has doubled the step may have dropped it and used its slot again. */
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	return READ_ONCE(table->entries[at]) == entry_of(p, slot) ? slot : -1;
}

/* What had the address @p was freed unseen. An object may be the first one of a live mapping. */
static void drop_former(struct hab_live_table *table, struct hab_channel *channel, const void *p,
			bool mapped)
{
	u32 at = hab_live_bucket(p) * HAB_LIVE_WAYS, end = at + HAB_LIVE_WAYS;
	u64 entry;
	int slot;

	for (; at < end; at++) {
		entry = READ_ONCE(table->entries[at]);
		slot = (int)(entry & SLOT_MASK);
		if ((entry & ~SLOT_MASK) == entry_of(p, 0) &&
		    (mapped || !table->objects[slot].mapped) && take_entry(table, at, entry))
			hab_live_release(table, channel, slot);
	}
}

static bool enter(struct hab_live_table *table, const void *p, int slot)
{
	u32 bucket = hab_live_bucket(p), at = bucket * HAB_LIVE_WAYS;
	u32 end = at + HAB_LIVE_WAYS;

	__atomic_fetch_add(&table->used[bucket], 1, __ATOMIC_RELAXED);
	for (; at < end; at++)
		if (!READ_ONCE(table->entries[at]) &&
		    !hab_word_cmpxchg(&table->entries[at], 0, entry_of(p, slot)))
			return true;
	__atomic_fetch_sub(&table->used[bucket], 1, __ATOMIC_RELAXED);
	return false;
}

/*
 * What was added before and after a doubling of the step weighs differently. A shrink takes a part
 * of both, and not the latest alone, which is exact only without a doubling between.
 */
bool hab_live_resize(struct hab_live_object *object, u64 asked, u64 usable, u64 step)
{
	u64 sampled = object->before + object->piece, had = object->usable - sampled;

	object->asked = asked;
	object->usable = usable;
	if (usable >= sampled + had) {
		object->added_steps +=
			((usable - sampled - had) << HAB_CHANNEL_ADDED_SHIFT) / max(step, 1ull);
	} else if (usable > sampled) {
		object->added_steps = hab_mul_div(object->added_steps, usable - sampled, had);
	} else {
		object->added_steps = 0;
		object->piece = usable > object->before ? usable - object->before : 0;
		object->drawn = min(object->drawn, object->piece);
	}
	return object->drawn >= object->point;
}

/*
 * The pieces are known in usable sizes, since the size that was asked for before is not known when
 * an object without a sample grows. So each has its part of what the program asked for last.
 */
static void write_object(struct hab_live_table *table, struct hab_channel_live *live, int slot,
			 const struct hab_live_object *object)
{
	u64 all = max(object->usable, 1ull), added = all - object->before - object->piece;
	const object_word *from = (const object_word *)object;
	object_word *to = (object_word *)&table->objects[slot];
	u32 i;

	/*
	 * With the object the slot's last entry is gone for hab_live_find(), with the fields the
	 * last sample_id for the collector, and with the count that enter() changes the table is
	 * there for hab_live_may_have(). Pairs with the fences there.
	 */
	__atomic_thread_fence(__ATOMIC_RELEASE);
	for (i = 0; i < sizeof(*object) / sizeof(*to); i++)
		WRITE_ONCE(to[i], from[i]);
	WRITE_ONCE(live->asked, hab_mul_div(object->asked, object->piece, all));
	WRITE_ONCE(live->drawn, object->drawn);
	WRITE_ONCE(live->added, hab_mul_div(object->asked, added, all));
	WRITE_ONCE(live->added_steps, hab_mul_div(object->asked, object->added_steps, all));
	WRITE_ONCE(live->address, object->address);
}

void hab_live_enter(struct hab_live_table *table, struct hab_channel *channel, int slot,
		    const void *p, const struct hab_live_object *object)
{
	struct hab_live_object placed = *object;
	struct hab_channel_live *live;
	u64 step;

	if (!channel || READ_ONCE(table->channel) != channel)
		return;
	drop_former(table, channel, p, object->mapped);
	live = &hab_channel_live(channel)[slot];
	placed.address = (uintptr_t)p;
	write_object(table, live, slot, &placed);
	if (object->mapped)
		/* Pairs with the acquire in hab_live_find_mapping(): the slot has this object. */
		__atomic_fetch_or(&table->mapped[slot / 64], 1ull << slot % 64, __ATOMIC_RELEASE);
	if (object->reported)
		hab_usdt_alloc((void *)p, object->asked, object->reported);
	/* Pairs with the collector's acquire: what was written is of this sample. */
	hab_store_release(&live->sample_id, object->sample_id);
	if (!enter(table, p, slot)) {
		if (object->reported)
			hab_usdt_free((void *)p);
		hab_live_release(table, channel, slot);
		return;
	}
	/* The step may have been doubled after the slot was claimed. */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	step = READ_ONCE(table->step);
	if (step && object->sample_id % step && hab_live_take(table, p) >= 0)
		hab_live_release(table, channel, slot);
}

int hab_live_find_mapping(const struct hab_live_table *table, int slot, u64 first, u64 end,
			  struct hab_live_object *object)
{
	u64 word;

	for (; slot < (int)HAB_CHANNEL_LIVE_SLOTS; slot++) {
		word = hab_load_acquire(&table->mapped[slot / 64]) >> slot % 64;
		if (!word) {
			slot |= 63;
			continue;
		}
		slot += __builtin_ctzll(word);
		read_object(table, slot, object);
		if (object->mapped && object->address < end &&
		    object->address + object->usable > first)
			return slot;
	}
	return -1;
}
