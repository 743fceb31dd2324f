// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Puts the functions that an interpreter runs into the stacks of samples, and sends their names.
 *
 * A name is sent once: a table has the keys of the places whose names were sent. A new collector
 * gets all names anew, and so does the collector of a child by fork().
 */
#include <stddef.h>

#include "wire/record.h"
#include "lib/clock.h"
#include "inside/interpreter.h"
#include "inside/unwind.h"

/* Places to look for a key. */
#define PROBES 16u

/*
 * Each place of the table has two ids, which its names have in turn. So a place may get another
 * name while samples with the one before are on their way. One id is never given.
 */
#define PLACES	   (HAB_NAMES_MAX / 2 - 1)
#define ID_UNKNOWN (HAB_NAMES_MAX - 1)
#define TURN	   1ull /* the lowest bit of a key says which id */

struct sent_name {
	u64 key; /* 0: free */
	u64 to;	 /* sent_to() of the collector that has it */
};

struct hab_interpreter_walk {
	const struct hab_client *client;
	struct hab_channel *channel;
	const struct hab_interpreter *interpreter;
	struct hab_stack_room *room;
	bool ring_is_full;
	u32 nr; /* functions */
};

static struct sent_name sent[PLACES];

/* Not the same for another name, in a child by fork(), and for another collector. */
static u64 sent_to(const struct hab_interpreter_walk *walk, u64 key)
{
	return hab_mix(key ^ hab_mix((u64)walk->client->number << 32 |
				     READ_ONCE(walk->channel->maps_wanted)));
}

static bool send_name(struct hab_interpreter_walk *walk, u32 id,
		      const struct hab_interpreter_place *place)
{
	struct hab_record_name *record;
	struct hab_interpreter_name name;
	u32 bytes;

	if (walk->ring_is_full || !walk->interpreter->name(place, &name))
		return false;
	bytes = (u32)sizeof(*record) + ((name.function_length + name.file_length + 7) & ~7u);
	record = hab_channel_reserve(walk->channel, bytes);
	if (!record) {
		walk->ring_is_full = true;
		return false;
	}
	memset(record, 0, bytes);
	record->head = (struct hab_record_head){ .type = HAB_RECORD_NAME,
						 .pid = walk->client->pid,
						 .tid = walk->client->pid,
						 .size = bytes,
						 .time_ns = hab_clock_coarse_ns() };
	record->id = id;
	record->line = name.line;
	record->function_length = name.function_length;
	record->file_length = name.file_length;
	memcpy(record->text, name.function, name.function_length);
	memcpy(record->text + name.function_length, name.file, name.file_length);
	hab_channel_commit(record);
	return true;
}

/*
 * The place that *key has, or gets, with the TURN of its id. PLACES: another thread has taken it
 * meanwhile.
 */
static u32 place_of(u64 *key)
{
	u32 first = (u32)(*key % PLACES), probe, place;
	u64 there = 0;

	for (probe = 0; probe < PROBES; probe++) {
		place = (first + probe) % PLACES;
		there = READ_ONCE(sent[place].key);
		if (!there)
			there = hab_word_cmpxchg(&sent[place].key, 0, *key);
		if (!there)
			return place;
		if ((there | TURN) == (*key | TURN)) {
			*key = there;
			return place;
		}
	}
	/* All have other names: the first one gets this. */
	there = READ_ONCE(sent[first].key);
	*key = (*key & ~TURN) | (~there & TURN);
	return hab_word_cmpxchg(&sent[first].key, there, *key) == there ? first : PLACES;
}

static u32 id_of(struct hab_interpreter_walk *walk, const struct hab_interpreter_place *place)
{
	u64 key = walk->interpreter->key(place), to;
	u32 at, id;

	if (!key)
		return ID_UNKNOWN;
	/* Never 0. */
	key |= 2 | TURN;
	at = place_of(&key);
	if (at == PLACES)
		return ID_UNKNOWN;
	id = at + (key & TURN ? 0 : PLACES);
	to = sent_to(walk, key);
	if (READ_ONCE(sent[at].to) != to) {
		if (!send_name(walk, id, place))
			return ID_UNKNOWN;
		WRITE_ONCE(sent[at].to, to);
	}
	return id;
}

bool hab_interpreter_add(struct hab_interpreter_walk *walk,
			 const struct hab_interpreter_place *place, u64 stack)
{
	if (walk->nr == HAB_CHANNEL_DEPTH) {
		walk->room->is_cut = true;
		return false;
	}
	walk->room->functions[walk->nr] = HAB_ADDRESS_OF_NAME((u64)id_of(walk, place));
	walk->room->function_stacks[walk->nr++] = stack;
	return true;
}

u32 hab_interpreter_count(const struct hab_interpreter_walk *walk)
{
	return walk->nr;
}

void hab_interpreter_set_stack(struct hab_interpreter_walk *walk, u32 first, u64 stack)
{
	for (; first < walk->nr; first++)
		walk->room->function_stacks[first] = stack;
}

/* True if the native frame that ends at @end, with @address, runs function number @next. */
static bool runs(const struct hab_interpreter_walk *walk, u32 next, u64 address, u64 end,
		 bool is_first)
{
	const struct hab_interpreter *interpreter = walk->interpreter;
	u64 stack;

	if (next == walk->nr)
		return false;
	stack = walk->room->function_stacks[next];
	/* The walk has ended before its native frame was known: it is the next one of the loop. */
	if (stack && stack != HAB_INTERPRETER_LATER)
		return stack < end;
	return (is_first || stack) && address > interpreter->loop_low &&
	       address <= interpreter->loop_high;
}

/* @callee: an address in the function that it calls; 0: in none. */
static bool is_own(const struct hab_interpreter *interpreter, u64 address, u64 callee)
{
	if (address > interpreter->code_low && address <= interpreter->code_high)
		return true;
	/* Code that it has made to call its loop: one for each function (-X perf). */
	return callee > interpreter->loop_low && callee <= interpreter->loop_high &&
	       hab_code_is_made(address - 1);
}

static u32 merge(const struct hab_interpreter_walk *walk, u32 nr)
{
	const struct hab_interpreter *interpreter = walk->interpreter;
	u64 *native = walk->room->native, *addresses = walk->room->addresses;
	const u64 *stacks = walk->room->stacks;
	u32 i, next = 0, to = 0, before;

	memcpy(native, addresses, nr * sizeof(*native));
	for (i = 0; i < nr && to < HAB_CHANNEL_DEPTH; i++) {
		/* The end of the last frame is not known. */
		for (before = next; to < HAB_CHANNEL_DEPTH &&
				    runs(walk, next, native[i], i + 1 < nr ? stacks[i + 1] : ~0ull,
					 next == before);
		     next++)
			addresses[to++] = walk->room->functions[next];
		if (to < HAB_CHANNEL_DEPTH && next == before &&
		    !is_own(interpreter, native[i], i ? native[i - 1] : 0))
			addresses[to++] = native[i];
	}
	/* The native stack was not followed so far. */
	while (next < walk->nr && to < HAB_CHANNEL_DEPTH)
		addresses[to++] = walk->room->functions[next++];
	walk->room->is_cut |= i < nr || next < walk->nr;
	return to;
}

u32 hab_interpreter_merge(const struct hab_interpreter *interpreter,
			  const struct hab_client *client, struct hab_channel *channel,
			  struct hab_stack_room *room, u32 nr)
{
	struct hab_interpreter_walk walk = {
		.client = client, .channel = channel, .interpreter = interpreter, .room = room
	};

	interpreter->walk(&walk);
	return walk.nr ? merge(&walk, nr) : nr;
}
