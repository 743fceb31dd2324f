// SPDX-License-Identifier: GPL-2.0-only
/* Points of the timeline: their sums, their limits and the ring. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wire/owner.h"
#include "daemon/habd/state/timeline.h"

#include "kselftest_harness.h"

#define KIND	  HAB_EVENT_SAMPLE
#define SECOND_NS 1000000000ull
#define START_NS  (1000000 * SECOND_NS) /* a full ten seconds */

static void add(struct timeline_copy *copy, uint32_t pid, uint32_t uid, uint64_t bytes,
		uint64_t in_use)
{
	struct stack_key key = { .pid = pid, .uid = uid, .owner = uid, .kind = KIND };

	snprintf(key.comm, sizeof(key.comm), "maker-%u", pid % 10);
	timeline_copy_add(copy, &key, bytes, in_use);
}

/* The sum of a user's entries; NULL: of all. *processes: those with a pid. */
static uint64_t bytes_of(const struct timeline_point *point, const uint32_t *uid,
			 unsigned int *processes)
{
	uint64_t bytes = 0;
	unsigned int i;

	*processes = 0;
	for (i = 0; i < point->count; i++) {
		if (uid && point->entries[i].uid != *uid)
			continue;
		bytes += point->entries[i].bytes;
		*processes += point->entries[i].pid != 0;
	}
	return bytes;
}

TEST(stacks_of_a_process_are_summed_up)
{
	struct timeline_copy copy = { 0 };
	struct timeline_point point;

	add(&copy, 7, 0, 100, 0);
	add(&copy, 8, 0, 500, 0);
	add(&copy, 7, 0, 20, 0);
	add(&copy, 7, 0, 0, 3);
	point = timeline_sum_up(&copy);
	ASSERT_EQ(2, point.count);
	EXPECT_EQ(8, point.entries[0].pid);
	EXPECT_EQ(120, point.entries[1].bytes);
	EXPECT_EQ(3, point.entries[1].in_use);
	free(point.entries);
}

TEST(many_processes_of_a_user_hide_none_of_another)
{
	struct timeline_copy copy = { 0 };
	const uint32_t many = 1000, one = 1001;
	struct timeline_point point;
	unsigned int processes, i;

	for (i = 1; i <= 10000; i++)
		add(&copy, i, many, 1000000, 0);
	add(&copy, 20000, one, 1, 0);
	point = timeline_sum_up(&copy);
	EXPECT_EQ(10000000000, bytes_of(&point, &many, &processes));
	EXPECT_EQ(TIMELINE_PROCESSES, processes);
	EXPECT_EQ(1, bytes_of(&point, &one, &processes));
	EXPECT_EQ(1, processes);
	free(point.entries);
}

TEST(a_process_number_of_two_containers_is_two_processes)
{
	struct stack_key key = { .pid = 7, .uid = 100033, .kind = KIND };
	struct timeline_copy copy = { 0 };
	struct timeline_point point;
	unsigned int i;

	for (i = 0; i < 4; i++) {
		key.owner = HAB_OWNER_NAMESPACE + i / 2;
		timeline_copy_add(&copy, &key, 10, 0);
	}
	point = timeline_sum_up(&copy);
	ASSERT_EQ(2, point.count);
	EXPECT_EQ(20, point.entries[0].bytes);
	EXPECT_EQ(20, point.entries[1].bytes);
	EXPECT_NE(point.entries[0].owner, point.entries[1].owner);
	free(point.entries);
}

/* Of all its users: each may be filtered by its uid, and the sum is none's. */
TEST(further_processes_of_a_container_are_one_sum)
{
	struct stack_key key = { .owner = HAB_OWNER_NAMESPACE + 1, .kind = KIND };
	struct timeline_copy copy = { 0 };
	struct timeline_point point;
	unsigned int i;

	for (i = 0; i < 1000; i++) {
		key.pid = i + 1;
		key.uid = 100000 + i;
		timeline_copy_add(&copy, &key, 10, 0);
	}
	point = timeline_sum_up(&copy);
	ASSERT_EQ(TIMELINE_PROCESSES + 1, point.count);
	for (i = 0; i < TIMELINE_PROCESSES; i++)
		EXPECT_EQ(99999 + point.entries[i].pid, point.entries[i].uid);
	EXPECT_EQ(0, point.entries[i].pid);
	EXPECT_EQ(0, point.entries[i].uid);
	EXPECT_EQ(10 * (1000 - TIMELINE_PROCESSES), point.entries[i].bytes);
	free(point.entries);
}

TEST(a_point_has_a_limit_and_the_sum_of_all)
{
	struct timeline_copy copy = { 0 };
	struct timeline_point point;
	unsigned int processes, i;

	for (i = 1; i <= 5000; i++)
		add(&copy, i, i, i, 0);
	point = timeline_sum_up(&copy);
	EXPECT_LE(point.count, TIMELINE_ENTRIES);
	EXPECT_EQ(5000ull * 5001 / 2, bytes_of(&point, NULL, &processes));
	EXPECT_EQ(5000, point.entries[0].pid);
	EXPECT_EQ(TIMELINE_MANY, point.entries[point.count - 1].uid);
	free(point.entries);
}

TEST(bytes_of_two_kinds_of_events_are_not_summed_up)
{
	struct stack_key key = { .pid = 7, .kind = HAB_EVENT_REFILL };
	struct timeline_copy copy = { 0 };
	struct timeline_point point;

	timeline_copy_add(&copy, &key, 10, 0);
	key.kind = HAB_EVENT_SAMPLE;
	timeline_copy_add(&copy, &key, 20, 0);
	point = timeline_sum_up(&copy);
	EXPECT_EQ(2, point.count);
	free(point.entries);
}

TEST(what_is_in_use_makes_a_process_large)
{
	struct timeline_copy copy = { 0 };
	struct timeline_point point;
	unsigned int i;

	for (i = 1; i <= 100; i++)
		add(&copy, i, 0, 1000, 0);
	add(&copy, 500, 0, 0, 5000);
	point = timeline_sum_up(&copy);
	EXPECT_EQ(500, point.entries[0].pid);
	free(point.entries);
}

TEST(many_owners_have_as_many_processes_as_have_room_and_a_sum)
{
	struct timeline_copy copy = { 0 };
	struct timeline_point point;
	unsigned int processes, i;
	uint32_t uid = 30;

	for (i = 0; i < 39 * 40; i++)
		add(&copy, i + 1, i % 39, 10 + i % 39, 0);
	point = timeline_sum_up(&copy);
	EXPECT_LE(point.count, TIMELINE_ENTRIES);
	EXPECT_EQ(40 * (10 + uid), bytes_of(&point, &uid, &processes));
	EXPECT_EQ(12, processes);
	for (i = 0; i < point.count; i++)
		EXPECT_NE(TIMELINE_MANY, point.entries[i].uid);
	free(point.entries);
}

TEST(threads_of_a_process_are_one)
{
	struct stack_key key = { .pid = 7, .kind = KIND, .comm = "process" };
	struct timeline_copy copy = { 0 };
	struct timeline_point point;
	unsigned int i;

	for (i = 0; i < 30; i++) {
		snprintf(key.thread, sizeof(key.thread), "thread-%u", i);
		timeline_copy_add(&copy, &key, i, 1);
	}
	point = timeline_sum_up(&copy);
	ASSERT_EQ(1, point.count);
	EXPECT_STREQ("process", point.entries->comm);
	EXPECT_EQ(29 * 30 / 2, point.entries->bytes);
	EXPECT_EQ(30, point.entries->in_use);
	free(point.entries);
}

FIXTURE(ring)
{
	struct stack_table *stacks;
	struct timeline *timeline;
	struct timeline_time now;
};

FIXTURE_SETUP(ring)
{
	self->stacks = stacks_new(256);
	self->now = (struct timeline_time){ START_NS, 5 * SECOND_NS };
	self->timeline = timeline_new(self->stacks, self->now);
}

FIXTURE_TEARDOWN(ring)
{
	timeline_free(self->timeline, self->stacks);
	stacks_free(self->stacks);
}

/* A sample, then time. True if a point was added. */
static bool pass(FIXTURE_DATA(ring) * self, uint64_t seconds)
{
	const struct hab_record_sample sample = { .bytes = 100,
						  .parts = 1,
						  .probability = 1ull << 32 }; /* certain */
	const struct stack_key key = { .pid = 7, .kind = KIND };
	struct timeline_copy copy;

	stacks_add(self->stacks, &sample, &key);
	self->now.realtime_ns += seconds * SECOND_NS;
	self->now.monotonic_ns += seconds * SECOND_NS;
	if (!timeline_copy(self->timeline, self->stacks, self->now, &copy))
		return false;
	timeline_add(self->timeline, timeline_sum_up(&copy));
	return true;
}

TEST_F(ring, a_point_has_the_samples_since_the_one_before)
{
	const struct timeline_point **points;
	unsigned int count;

	EXPECT_FALSE(pass(self, 4));
	EXPECT_TRUE(pass(self, 6));
	EXPECT_TRUE(pass(self, 10));
	points = timeline_take(self->timeline, &count);
	ASSERT_EQ(2, count);
	EXPECT_EQ(START_NS, points[0]->start_ns);
	EXPECT_EQ(10 * SECOND_NS, points[0]->duration_ns);
	ASSERT_EQ(1, points[0]->count);
	EXPECT_EQ(2 * points[1]->entries->bytes, points[0]->entries->bytes);
	timeline_put(points, count);
}

TEST_F(ring, the_oldest_point_goes_after_an_hour)
{
	const struct timeline_point **points;
	unsigned int count, i;

	for (i = 0; i < 400; i++)
		EXPECT_TRUE(pass(self, 10));
	points = timeline_take(self->timeline, &count);
	ASSERT_EQ(360, count);
	for (i = 0; i < count; i++)
		EXPECT_EQ(START_NS + (40 + i) * 10 * SECOND_NS, points[i]->start_ns);
	timeline_put(points, count);
}

TEST_F(ring, points_of_a_reader_stay_while_the_ring_goes_on)
{
	const struct timeline_point **points;
	unsigned int count, i;

	pass(self, 10);
	points = timeline_take(self->timeline, &count);
	for (i = 0; i < 800; i++)
		pass(self, 10);
	ASSERT_EQ(1, count);
	EXPECT_EQ(START_NS, points[0]->start_ns);
	EXPECT_EQ(7, points[0]->entries->pid);
	timeline_put(points, count);
}

TEST_F(ring, a_clock_that_is_set_back_changes_no_duration)
{
	const struct timeline_point **points;
	unsigned int count;

	EXPECT_TRUE(pass(self, 10));
	self->now.realtime_ns -= 3600 * SECOND_NS;
	EXPECT_TRUE(pass(self, 10));
	EXPECT_TRUE(pass(self, 10));
	points = timeline_take(self->timeline, &count);
	ASSERT_EQ(3, count);
	EXPECT_EQ(10 * SECOND_NS, points[1]->duration_ns);
	EXPECT_EQ(START_NS - 3580 * SECOND_NS, points[2]->start_ns);
	EXPECT_EQ(10 * SECOND_NS, points[2]->duration_ns);
	timeline_put(points, count);
}

TEST_HARNESS_MAIN
