// SPDX-License-Identifier: GPL-2.0-only
/*
 * The slots of live samples in all interleavings, with loads that give older values: the collector
 * never takes one sample's fields for another's, and no sample is live that is no multiple of the
 * step.
 */
#include "atomics_explored.h"
#include "explore.h"
#include "kselftest_harness.h"
#include "inside/live.h"
#include "inside/usdt.h"

bool explore_torn;

/* More than one channel has in its first pages, for the slots behind the ring. */
static union {
	struct hab_channel channel;
	char bytes[HAB_CHANNEL_BYTES];
} shared;
static struct hab_live_table table;
static struct hab_live_table *client; /* as hab_client, which leads to the table */
static unsigned int free_slots;
static bool is_first_live; /* before the threads begin */

/* No sample here was reported. */
void hab_usdt_alloc(void *p, size_t size, uint64_t weight)
{
	(void)p, (void)size, (void)weight;
}

void hab_usdt_free(void *p)
{
	(void)p;
}

/* Its fields say whose they are. */
static int make(u64 sample_id)
{
	int slot = hab_live_claim(&table, &shared.channel, sample_id);
	const struct hab_live_object object = {
		.sample_id = sample_id,
		.asked = sample_id * 1000,
		.usable = sample_id * 1000,
		.piece = sample_id * 1000,
		.drawn = sample_id * 1000,
		.point = 1,
	};

	if (slot >= 0)
		hab_live_enter(&table, &shared.channel, slot, (void *)(sample_id * HAB_LIVE_PAGE),
			       &object);
	return slot;
}

static void begin(void)
{
	memset(&table, 0, sizeof(table));
	memset(&shared.channel, 0, sizeof(shared.channel));
	memset(hab_channel_live(&shared.channel), 0,
	       HAB_CHANNEL_LIVE_SLOTS * sizeof(struct hab_channel_live));
	table.slots[0] = ~0ull << free_slots;
	table.step = shared.channel.live_step = 1;
	table.channel = &shared.channel;
	hab_live_used = table.used;
	client = NULL;
	if (is_first_live)
		make(1);
}

static void end(u64 sample_id)
{
	int slot = hab_live_take(&table, (void *)(sample_id * HAB_LIVE_PAGE));

	if (slot >= 0)
		hab_live_release(&table, &shared.channel, slot);
}

static void read_slots(void)
{
	struct hab_channel_live *slots = hab_channel_live(&shared.channel), now;
	u64 sample_id;

	for (sample_id = 1; sample_id <= 2; sample_id++)
		if (hab_channel_read_live(&slots[0], sample_id, &now) &&
		    (now.address != sample_id * HAB_LIVE_PAGE || now.asked != sample_id * 1000 ||
		     now.drawn != sample_id * 1000))
			explore_fail("a sample has the fields of another one");
}

/* A sample ends, and the next one gets its slot; the collector reads meanwhile. */
static void pass_a_slot_on(unsigned int number)
{
	if (!number) {
		read_slots();
		return;
	}
	make(1);
	end(1);
	make(2);
}

/* A thread reads the first sample, while it ends and the next one gets its slot. */
static void find_while_a_slot_is_passed_on(unsigned int number)
{
	struct hab_live_object found;

	if (number) {
		end(1);
		make(2);
	} else if (hab_live_find(&table, (void *)HAB_LIVE_PAGE, &found) >= 0 &&
		   (found.sample_id != 1 || found.asked != 1000 || found.drawn != 1000)) {
		explore_fail("an object is another one's, in part");
	}
}

/* Two threads and room for one sample: the second one doubles the step. */
static void fill_the_table(unsigned int number)
{
	make(number + 1);
}

/* A thread frees what has the address, or the bucket, of the first live object. */
static void free_beside_the_first(unsigned int number)
{
	if (!number) {
		if (hab_live_may_have((void *)HAB_LIVE_PAGE) && !READ_ONCE(client))
			explore_fail("an object may be live, and there is no table");
		return;
	}
	WRITE_ONCE(client, &table);
	if (READ_ONCE(client))
		make(1);
}

static void check(void)
{
	const struct hab_channel_live *slots = hab_channel_live(&shared.channel);
	u64 entry, taken = ~0ull << free_slots;
	unsigned int at, i;

	for (at = 0; at < HAB_LIVE_BUCKETS * HAB_LIVE_WAYS; at++) {
		entry = table.entries[at];
		if (!entry)
			continue;
		if (table.objects[entry % HAB_LIVE_PAGE].sample_id % table.step)
			explore_fail("a sample is live that is no multiple of the step");
		taken |= 1ull << entry % HAB_LIVE_PAGE;
	}
	if (table.slots[0] != taken)
		explore_fail("a slot is lost, or has two samples");
	for (i = 0; i < free_slots; i++)
		if (!slots[i].sample_id != !(taken & 1ull << i))
			explore_fail("a slot does not say whether its sample is live");
}

static struct explore_result explore_live(void (*thread)(unsigned int), unsigned int preemptions,
					  unsigned int stale, const char *relaxed_in)
{
	struct explore_model model = {
		.nr_threads = 2,
		.nr_cpus = 2,
		.preemptions = preemptions,
		.stale = stale,
		.begin = begin,
		.thread = thread,
		.check = check,
	};
	struct explore_result found;

	free_slots = 1;
	weak_relaxed_in = relaxed_in;
	found = explore(&model);
	weak_relaxed_in = NULL;
	return found;
}

TEST(the_collector_has_the_fields_of_one_sample_on_weakly_ordered_cpus)
{
	HOLDS(explore_live(pass_a_slot_on, 2, 1, NULL));
	HOLDS(explore_live(pass_a_slot_on, 1, 3, NULL));
}

TEST(a_live_sample_is_a_multiple_of_the_step_on_weakly_ordered_cpus)
{
	HOLDS(explore_live(fill_the_table, 3, 1, NULL));
	HOLDS(explore_live(fill_the_table, 2, 3, NULL));
}

TEST(a_thread_that_finds_a_count_finds_the_table_on_weakly_ordered_cpus)
{
	HOLDS(explore_live(free_beside_the_first, 2, 2, NULL));
}

static struct explore_result explore_find(unsigned int preemptions, unsigned int stale,
					  const char *relaxed_in)
{
	struct explore_result found;

	is_first_live = true;
	found = explore_live(find_while_a_slot_is_passed_on, preemptions, stale, relaxed_in);
	is_first_live = false;
	return found;
}

TEST(an_object_that_is_found_is_that_of_its_entry_on_weakly_ordered_cpus)
{
	HOLDS(explore_find(3, 1, NULL));
	HOLDS(explore_find(2, 2, NULL));
}

TEST(a_missing_barrier_is_found)
{
	FINDS(explore_find(2, 1, "hab_live_find"), "an object is another one's, in part");
	FINDS(explore_find(2, 1, "write_object"), "an object is another one's, in part");
	FINDS(explore_live(free_beside_the_first, 2, 2, "hab_live_may_have"),
	      "an object may be live, and there is no table");
	FINDS(explore_live(free_beside_the_first, 2, 2, "write_object"),
	      "an object may be live, and there is no table");
	FINDS(explore_live(pass_a_slot_on, 2, 1, "hab_live_enter"),
	      "a sample has the fields of another one");
	FINDS(explore_live(pass_a_slot_on, 2, 1, "write_object"),
	      "a sample has the fields of another one");
	FINDS(explore_live(pass_a_slot_on, 2, 1, "hab_channel_read_live"),
	      "a sample has the fields of another one");
	FINDS(explore_live(fill_the_table, 3, 1, "hab_live_enter"),
	      "a sample is live that is no multiple of the step");
	FINDS(explore_live(fill_the_table, 3, 1, "double_step"),
	      "a sample is live that is no multiple of the step");
}

TEST(a_slot_that_two_threads_may_claim_is_found)
{
	explore_torn = true;
	FINDS(explore_live(fill_the_table, 3, 1, NULL), "a slot is lost, or has two samples");
	explore_torn = false;
}

TEST_HARNESS_MAIN
