/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The channel: memory that a program with libhab-malloc.so, or with libhab and without the module,
 * shares with its collector, which is habrun or habd.
 *
 * The program makes a memfd of HAB_CHANNEL_BYTES, seals its size and its seals, maps it, and sends
 * it with a struct hab_channel_hello over a Unix socket of type SOCK_SEQPACKET. It does not wait
 * for an answer, and closes both descriptors. From then on it writes records (wire/record.h) to the
 * ring and its live samples to the table, and makes no further system call for them. So a program
 * may close all descriptors, and what it wrote last can be read after it was killed.
 *
 * Neither side trusts the other. The program keeps in memory of its own what it needs to work. The
 * collector copies each record before it looks at it.
 *
 * A live sample is one whose object is not freed. Its slot in the table says how large the object
 * is now; its record, which has the number of the slot, came before. When the table is full, the
 * program doubles the channel's @live_step and drops each live sample whose sample_id is not a
 * multiple of it; from then on only multiples become live, and each stands for @live_step of its
 * kind. So sample_ids of one process are given at random.
 *
 * What a live sample stands for. An object is allocated in pieces: what was asked for first, and
 * each growth by realloc(). Each piece is drawn for by itself, with the interval of its time, until
 * one is sampled. That piece stands for a / q bytes, where a is what was asked for of it, and q the
 * probability that it was sampled; pieces before it stand for nothing, and what is added later for
 * itself. So with each piece of a bytes the estimate grows by a in the mean, whatever the intervals
 * are: by a / q with the probability q while no piece is sampled, and else by a. A doubling of
 * @live_step doubles the whole estimate or makes it 0, so it keeps the mean, too. An object shrinks
 * from its end, and its sample ends with the byte that is the sample point.
 */
#ifndef HAB_CORE_CHANNEL_H
#define HAB_CORE_CHANNEL_H

#include "core/os.h"

/* HAB_CHANNEL in the environment: another; empty: none */
#define HAB_CHANNEL_SOCKET	"/run/hab/channel"
/*
 * A user may have a socket of its own, with this behind the name: so who connects in a loop fills
 * the queue of no other. A program tries it first.
 */
#define HAB_CHANNEL_OF_USER	".%u"
#define HAB_CHANNEL_MAGIC	0x6c6e6863u	   /* "chnl" in memory */
#define HAB_CHANNEL_VERSION	10
#define HAB_CHANNEL_FILE	"hab-channel"	     /* name of the memfd */
#define HAB_CHANNEL_SECRET	"HAB_CHANNEL_SECRET" /* environment variable */
#define HAB_CHANNEL_RING_BYTES	(256u << 10)	     /* a power of two */
#define HAB_CHANNEL_RECORD_MAX	(16u << 10)
#define HAB_CHANNEL_ADDED_SHIFT 16
#ifndef HAB_CHANNEL_LIVE_SLOTS /* tests have fewer */
#define HAB_CHANNEL_LIVE_SLOTS	4096u
#endif
#define HAB_CHANNEL_RING_OFFSET 4096u
#define HAB_CHANNEL_LIVE_OFFSET (HAB_CHANNEL_RING_OFFSET + HAB_CHANNEL_RING_BYTES)
#define HAB_CHANNEL_SHARE_ALL	~0u		     /* of samples, see struct hab_channel */
#define HAB_CHANNEL_GROWTH	1024u
#define HAB_CHANNEL_BYTES \
	(HAB_CHANNEL_LIVE_OFFSET + HAB_CHANNEL_LIVE_SLOTS * (u32)sizeof(struct hab_channel_live))

/**
 * struct hab_channel_hello - the message that comes with the memfd
 * @magic: HAB_CHANNEL_MAGIC
 * @version: HAB_CHANNEL_VERSION
 * @secret: HAB_CHANNEL_SECRET, 32 lower-case hexadecimal digits; 0 without. A collector that has
 *	set the variable refuses other programs
 *
 * The collector takes the pid from the socket.
 */
struct hab_channel_hello {
	u32 magic;
	u32 version;
	u64 secret[2];
};

/* Reads the digits of HAB_CHANNEL_SECRET; @digits: NULL: it is not set. */
static inline void hab_channel_read_secret(const char *digits, u64 secret[2])
{
	unsigned int i;
	u64 digit;

	secret[0] = 0;
	secret[1] = 0;
	for (i = 0; digits && digits[i] && i < 32; i++) {
		digit = (u64)(digits[i] <= '9' ? digits[i] - '0' : digits[i] - 'a' + 10);
		secret[i / 16] = secret[i / 16] << 4 | (digit & 15);
	}
}

/**
 * struct hab_channel_live - a slot of the table of live samples
 * @sample_id: 0: free. Written last when the slot is taken, first when it is freed
 * @asked: bytes of the piece that was sampled, as the program asked for, without what the object
 *	shrank by
 * @drawn: bytes that were drawn for that piece, likewise. It stands for
 *	@asked / (1 - exp(-@drawn / interval)) bytes, times the channel's @live_step. The interval
 *is that of its record
 * @added: bytes by which the object has grown since, as the program asked for
 * @added_steps: the same, each growth divided by the @live_step of its time, with
 *	HAB_CHANNEL_ADDED_SHIFT bits of fraction. It stands for @added_steps times @live_step
 * @address: where the object is
 */
struct hab_channel_live {
	u64 sample_id;
	u64 asked;
	u64 drawn;
	u64 added;
	u64 added_steps;
	u64 address;
};

/**
 * struct hab_channel - the first page
 * @magic: HAB_CHANNEL_MAGIC; this and the next: set before the channel is sent. Another number: the
 *	channel is read no more. The collector removes the memory then, so it reads as 0
 * @version: HAB_CHANNEL_VERSION
 * @head: position of the next record to be reserved, in bytes since the start
 * @lost: samples without room in the ring
 * @live_step: a power of two; 0: the program tells no live samples, as one with libhab alone
 * @allocated: bytes that the threads had allocated when each looked at its interval last, which a
 *	thread does at each sample, before it has allocated 512 KiB more, at its end and in exit();
 *	of heaps of libhab up to the last sample of each thread that runs
 * @lost_bytes: what the lost samples stand for
 * @interpreter: what is done with an interpreter's functions, see enum hab_channel_interpreter.
 *	Bits 8 to 15: its minor version, 16 to 23: its major one
 * @tail: position of the first record that is not read yet; only the collector writes it. The
 *	program sets the next four before it sends the channel; then only the collector writes them
 * @share: by which the sampling interval is set: the process makes about 2.4 times as many samples
 *	in a window. In units of 1 / 2^HAB_SHARE_SHIFT; 0: HAB_SHARE_DEFAULT; HAB_CHANNEL_SHARE_ALL:
 *	the interval is the least, whatever the rate
 * @maps_wanted: how often the collector has lost what the program told it, as when the channel was
 *	given to another collector: the program then sends its mappings and names again
 * @interval_least: lower bound of the interval in bytes; 0: HAB_SAMPLING_INTERVAL_DEFAULT
 * @interval_begin: not 0: the interval at first. It grows to 1 / HAB_CHANNEL_GROWTH of the bytes
 *	that the process has allocated, and to @interval_least at most
 *
 * With less than half of the ring free the interval is larger than these say: the less room, the
 * larger. So a program that is faster than its collector loses hardly a sample.
 */
struct hab_channel {
	u32 magic;
	u32 version;
	u64 head;
	u64 lost;
	u64 live_step;
	u64 allocated;
	u64 lost_bytes;
	u64 interpreter;
	u64 reserved; /* what the collector writes has its own cache line */
	u64 tail;
	u32 share;
	u32 maps_wanted;
	u64 interval_least;
	u64 interval_begin;
};

/* Seen at a sample. In all cases but the second, stacks have the interpreter's own functions. */
enum hab_channel_interpreter {
	HAB_INTERPRETER_NONE,
	HAB_INTERPRETER_SHOWN,
	HAB_INTERPRETER_NOT_KNOWN,  /* this version or build is not known */
	HAB_INTERPRETER_UNEXPECTED, /* its objects were not as expected: none is read now */
};

/* true: the collector reads the channel. */
static inline bool hab_channel_is_open(const struct hab_channel *channel)
{
	return READ_ONCE(channel->magic) == HAB_CHANNEL_MAGIC;
}

static inline struct hab_channel_live *hab_channel_live(struct hab_channel *channel)
{
	return (void *)((char *)channel + HAB_CHANNEL_LIVE_OFFSET);
}

/**
 * hab_channel_read_live - read a slot while the program changes it
 * @slot: of the collector's mapping
 * @sample_id: of the sample that had the slot
 * @now: gets the other fields, as the program has written them
 *
 * Return: false if the slot is another sample's by now, or nobody's.
 */
static inline bool hab_channel_read_live(const struct hab_channel_live *slot, u64 sample_id,
					 struct hab_channel_live *now)
{
	/* Pairs with the store of @sample_id when the slot is taken. */
	if (hab_load_acquire(&slot->sample_id) != sample_id)
		return false;
	now->sample_id = sample_id;
	now->asked = READ_ONCE(slot->asked);
	now->drawn = READ_ONCE(slot->drawn);
	now->added = READ_ONCE(slot->added);
	now->added_steps = READ_ONCE(slot->added_steps);
	now->address = READ_ONCE(slot->address);
	/* It may have been freed, and the slot taken by another one, before these loads. */
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	return READ_ONCE(slot->sample_id) == sample_id;
}

/*
 * Records in the ring begin with a word: the bytes of the record that follows, which are a multiple
 * of 8, and flags. 0: reserved a moment ago. The collector writes 0 over all that it has read.
 */
#define HAB_CHANNEL_BUSY    (1ull << 32) /* the record is being written */
#define HAB_CHANNEL_PADDING (1ull << 33) /* no record: the rest of the ring */

static inline u64 *hab_ring_word(struct hab_channel *channel, u64 position, u64 ring)
{
	return (void *)((char *)channel + HAB_CHANNEL_RING_OFFSET + position % ring);
}

static inline u64 *hab_channel_word(struct hab_channel *channel, u64 position)
{
	return hab_ring_word(channel, position, HAB_CHANNEL_RING_BYTES);
}

/**
 * hab_ring_reserve - make room for a record
 * @channel: mapped; any thread, signal handlers too
 * @bytes: of the record, a multiple of 8, at most HAB_CHANNEL_RECORD_MAX
 * @ring: bytes of the ring, a power of two: HAB_CHANNEL_RING_BYTES, or more between processes of
 *	habd. The same for this and the next
 *
 * Return: where the record goes, or NULL if the ring is full. hab_channel_commit() follows.
 */
static inline void *hab_ring_reserve(struct hab_channel *channel, u32 bytes, u64 ring)
{
	u64 tail, head, position, end, need = bytes + sizeof(u64);

	do {
		/* Pairs with the release in hab_channel_release(): the memory is 0 again. */
		tail = hab_load_acquire(&channel->tail);
		head = READ_ONCE(channel->head);
		position = head;
		if (ring - head % ring < need)
			position += ring - head % ring;
		end = position + need;
		if (end - tail > ring)
			return NULL;
	} while (hab_word_cmpxchg(&channel->head, head, end) != head);
	if (position != head)
		hab_store_release(hab_ring_word(channel, head, ring),
				  (position - head - sizeof(u64)) | HAB_CHANNEL_PADDING);
	WRITE_ONCE(*hab_ring_word(channel, position, ring), bytes | HAB_CHANNEL_BUSY);
	return hab_ring_word(channel, position, ring) + 1;
}

static inline void *hab_channel_reserve(struct hab_channel *channel, u32 bytes)
{
	return hab_ring_reserve(channel, bytes, HAB_CHANNEL_RING_BYTES);
}

/* The record at @record is written. */
static inline void hab_channel_commit(void *record)
{
	u64 *word = (u64 *)record - 1;

	/* Pairs with the acquire in hab_channel_peek(). */
	hab_store_release(word, READ_ONCE(*word) & ~HAB_CHANNEL_BUSY);
}

/**
 * hab_ring_peek - the record at a position
 * @channel: mapped; one thread of the collector
 * @position: where the last one ended; the collector's own variable, since the program can write
 *	the channel's
 * @bytes: gets the size of what is there, without the word; 0 is possible for padding
 * @ring: bytes of the ring
 *
 * Return: the word's flags and size, or 0 if nothing has come. A size that is impossible is
 * returned as ~0: the program has written nonsense, and no position is known any more.
 */
static inline u64 hab_ring_peek(struct hab_channel *channel, u64 position, u32 *bytes, u64 ring)
{
	u64 left = ring - position % ring - sizeof(u64);
	u64 word = hab_load_acquire(hab_ring_word(channel, position, ring));

	*bytes = (u32)word;
	if (*bytes % 8 || *bytes > left ||
	    (*bytes > HAB_CHANNEL_RECORD_MAX && !(word & HAB_CHANNEL_PADDING)))
		return ~0ull;
	return word;
}

static inline u64 hab_channel_peek(struct hab_channel *channel, u64 position, u32 *bytes)
{
	return hab_ring_peek(channel, position, bytes, HAB_CHANNEL_RING_BYTES);
}

/* What is at @position, @bytes and its word, was read; returns the next position. */
static inline u64 hab_ring_release(struct hab_channel *channel, u64 position, u32 bytes, u64 ring)
{
	memset(hab_ring_word(channel, position, ring), 0, bytes + sizeof(u64));
	position += bytes + sizeof(u64);
	hab_store_release(&channel->tail, position);
	return position;
}

static inline u64 hab_channel_release(struct hab_channel *channel, u64 position, u32 bytes)
{
	return hab_ring_release(channel, position, bytes, HAB_CHANNEL_RING_BYTES);
}

#endif /* HAB_CORE_CHANNEL_H */
