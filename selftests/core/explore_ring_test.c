// SPDX-License-Identifier: GPL-2.0-only
/*
 * The ring of a channel in all interleavings, with loads that give older values: each record is
 * read once, whole and in its thread's order, and none is lost while there is room.
 */
#include "explore.h"
#include "kselftest_harness.h"

/* The ring's memory is shared, so it is zeroed by stores that the model sees. */
#define memset zero_shared
static void zero_shared(void *p, int value, size_t bytes);
#include "wire/channel.h"
#undef memset

bool explore_torn;

#define PRODUCERS 2u
#define EACH	  2u
#define RECORD	  8u
#define RING	  64u /* room for all records */
#define LOOKS	  6u  /* of the collector, while the others run */

static union {
	struct hab_channel channel;
	char bytes[HAB_CHANNEL_RING_OFFSET + RING];
} shared;

static u64 values[PRODUCERS * EACH], position, ring;
static unsigned int nr_values, lost;

static void zero_shared(void *p, int value, size_t bytes)
{
	u64 *word = p;

	for (; bytes; bytes -= sizeof(*word))
		WRITE_ONCE(*word++, (u64)value);
}

static void begin(void)
{
	memset(&shared, 0, sizeof(shared));
	position = 0;
	nr_values = lost = 0;
}

static void collect(void)
{
	u64 word, value;
	u32 bytes;

	word = hab_ring_peek(&shared.channel, position, &bytes, ring);
	if (word == ~0ull)
		explore_fail("the ring has nonsense");
	if (!word || word & HAB_CHANNEL_BUSY)
		return;
	if (!(word & HAB_CHANNEL_PADDING)) {
		value = READ_ONCE(*(hab_ring_word(&shared.channel, position, ring) + 1));
		if (nr_values == PRODUCERS * EACH)
			explore_fail("a record is read twice");
		values[nr_values++] = value;
	}
	position = hab_ring_release(&shared.channel, position, bytes, ring);
}

/* A record's value says whose and which it is. */
static void produce(unsigned int number)
{
	u64 *record, i;

	for (i = 1; i <= EACH; i++) {
		record = hab_ring_reserve(&shared.channel, RECORD, ring);
		if (!record) {
			lost++;
			continue;
		}
		WRITE_ONCE(*record, number * 16 + i);
		hab_channel_commit(record);
	}
}

static void run(unsigned int number)
{
	unsigned int i;

	for (i = 0; !number && i < LOOKS; i++)
		collect();
	if (number)
		produce(number);
}

static void check(void)
{
	unsigned int i, before, last[PRODUCERS + 1] = { 0 };

	do {
		before = (unsigned int)position;
		collect();
	} while (position != before);
	for (i = 0; i < nr_values; i++) {
		unsigned int number = (unsigned int)(values[i] / 16), which = values[i] % 16;

		if (!number || number > PRODUCERS || !which || which > EACH)
			explore_fail("a record is not whole");
		if (which <= last[number])
			explore_fail("a thread's records are out of order");
		last[number] = which;
	}
	if (nr_values + lost != PRODUCERS * EACH)
		explore_fail("a record has vanished");
	if (lost && ring == RING)
		explore_fail("a record is lost while there is room");
}

static struct explore_result explore_ring(unsigned int preemptions, unsigned int stale,
					  u64 ring_bytes, const char *relaxed_in)
{
	struct explore_model model = {
		.nr_threads = 1 + PRODUCERS,
		.nr_cpus = 1 + PRODUCERS,
		.preemptions = preemptions,
		.stale = stale,
		.begin = begin,
		.thread = run,
		.check = check,
	};
	struct explore_result found;

	ring = ring_bytes;
	weak_relaxed_in = relaxed_in;
	found = explore(&model);
	weak_relaxed_in = NULL;
	return found;
}

TEST(records_are_whole_and_none_is_lost_on_weakly_ordered_cpus)
{
	HOLDS(explore_ring(2, 1, RING, NULL));
	HOLDS(explore_ring(1, 4, RING, NULL));
}

/* Room for two records: their places are used again. */
TEST(a_full_ring_loses_records_but_none_in_part)
{
	HOLDS(explore_ring(2, 1, RING / 2, NULL));
	HOLDS(explore_ring(1, 4, RING / 2, NULL));
}

TEST(a_missing_barrier_is_found)
{
	FINDS(explore_ring(2, 1, RING, "hab_channel_commit"),
	      "a thread's records are out of order");
	FINDS(explore_ring(2, 1, RING, "hab_ring_peek"), "a thread's records are out of order");
	FINDS(explore_ring(2, 1, RING, "hab_ring_release"), "a record is lost while there is room");
	FINDS(explore_ring(2, 1, RING, "hab_ring_reserve"), "a record is lost while there is room");
}

TEST(a_place_that_is_not_reserved_by_one_thread_alone_is_found)
{
	explore_torn = true;
	FINDS(explore_ring(2, 1, RING, NULL), "a record has vanished");
	explore_torn = false;
}

TEST_HARNESS_MAIN
