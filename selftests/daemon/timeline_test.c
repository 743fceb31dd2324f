// SPDX-License-Identifier: GPL-2.0-only
/* Points of the timeline: their sums and their limits. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/state/timeline.h"

#include "kselftest_harness.h"

#define KIND HAB_EVENT_SAMPLE

static void add(struct timeline_sums *sums, uint32_t pid, uint32_t uid, uint64_t bytes,
		uint64_t in_use)
{
	struct stack_key key = { .pid = pid, .uid = uid, .kind = KIND };

	snprintf(key.comm, sizeof(key.comm), "maker-%u", pid % 10);
	timeline_sums_add(sums, &key, bytes, in_use);
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
	struct timeline_sums *sums = timeline_sums_new();
	struct timeline_point point;

	add(sums, 7, 0, 100, 0);
	add(sums, 8, 0, 500, 0);
	add(sums, 7, 0, 20, 0);
	add(sums, 7, 0, 0, 3);
	timeline_sums_end(sums, &point);
	ASSERT_EQ(2, point.count);
	EXPECT_EQ(8, point.entries[0].pid);
	EXPECT_EQ(120, point.entries[1].bytes);
	EXPECT_EQ(3, point.entries[1].in_use);
	free(point.entries);
}

TEST(many_processes_of_a_user_hide_none_of_another)
{
	struct timeline_sums *sums = timeline_sums_new();
	const uint32_t many = 1000, one = 1001;
	struct timeline_point point;
	unsigned int processes, i;

	for (i = 1; i <= 10000; i++)
		add(sums, i, many, 1000000, 0);
	add(sums, 20000, one, 1, 0);
	timeline_sums_end(sums, &point);
	EXPECT_EQ(10000000000, bytes_of(&point, &many, &processes));
	EXPECT_EQ(TIMELINE_PROCESSES, processes);
	EXPECT_EQ(1, bytes_of(&point, &one, &processes));
	EXPECT_EQ(1, processes);
	free(point.entries);
}

TEST(a_point_has_a_limit_and_the_sum_of_all)
{
	struct timeline_sums *sums = timeline_sums_new();
	struct timeline_point point;
	unsigned int processes, i;

	for (i = 1; i <= 5000; i++)
		add(sums, i, i, i, 0);
	timeline_sums_end(sums, &point);
	EXPECT_LE(point.count, TIMELINE_ENTRIES);
	EXPECT_EQ(5000ull * 5001 / 2, bytes_of(&point, NULL, &processes));
	EXPECT_EQ(5000, point.entries[0].pid);
	EXPECT_EQ(TIMELINE_MANY, point.entries[point.count - 1].uid);
	free(point.entries);
}

TEST(bytes_of_two_kinds_of_events_are_not_summed_up)
{
	struct stack_key key = { .pid = 7, .kind = HAB_EVENT_REFILL };
	struct timeline_sums *sums = timeline_sums_new();
	struct timeline_point point;

	timeline_sums_add(sums, &key, 10, 0);
	key.kind = HAB_EVENT_SAMPLE;
	timeline_sums_add(sums, &key, 20, 0);
	timeline_sums_end(sums, &point);
	EXPECT_EQ(2, point.count);
	free(point.entries);
}

TEST(what_is_in_use_makes_a_process_large)
{
	struct timeline_sums *sums = timeline_sums_new();
	struct timeline_point point;
	unsigned int i;

	for (i = 1; i <= 100; i++)
		add(sums, i, 0, 1000, 0);
	add(sums, 500, 0, 0, 5000);
	timeline_sums_end(sums, &point);
	EXPECT_EQ(500, point.entries[0].pid);
	free(point.entries);
}

TEST_HARNESS_MAIN
