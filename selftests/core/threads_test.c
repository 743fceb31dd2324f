// SPDX-License-Identifier: GPL-2.0-only
/*
 * Offers to the throttler by threads, with rotations and new rates meanwhile. Built with thread
 * sanitizer: each access that is not atomic is a failure.
 */
#include <pthread.h>
#include <stdlib.h>

#include "kselftest_harness.h"
#include "core/throttle/throttle.h"
#include "wire/record.h"

#define THREADS 4
#define EVENTS	150000

struct crowd {
	struct hab_throttle throttle;
	hab_counter kept;     /* events that took a free slot */
	hab_counter replaced; /* events that took another's slot */
	hab_counter going;
	u64 used; /* slots that the ended windows report */
	u64 impossible;
};

static void count_end(void *context, const struct hab_window_end *end)
{
	struct crowd *crowd = context;

	crowd->used += min(end->candidates, (u64)end->quota);
	crowd->impossible += !end->quota || !end->candidates;
}

static void *offer_many(void *argument)
{
	struct crowd *crowd = argument;
	struct hab_kept kept;
	u64 key;
	int n;

	hab_counter_increment(&crowd->going);
	for (n = 0; n < EVENTS; n++) {
		/* Most events are of one process, some of processes that come and go. */
		key = n % 8 ? 1 : 2 + n / 1000;
		if (!hab_throttle_offer(&crowd->throttle, key, &kept))
			continue;
		if (!kept.number || !HAB_REPLACES(kept.place.candidate, kept.quota))
			hab_counter_increment(&crowd->kept);
		else
			hab_counter_increment(&crowd->replaced);
	}
	hab_counter_increment(&crowd->going);
	return NULL;
}

static void run_crowd(struct crowd *crowd, void (*beside)(struct crowd *crowd, u64 round))
{
	pthread_t threads[THREADS];
	u64 round;
	int i;

	for (i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, offer_many, crowd);
	for (round = 0; hab_counter_read(&crowd->going) < 2 * THREADS; round++)
		beside(crowd, round);
	for (i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	beside(crowd, round);
}

static void rotate(struct crowd *crowd, u64 round)
{
	hab_throttle_rotate(&crowd->throttle, hab_mix(round), count_end, crowd);
}

TEST(each_event_counts_and_each_sample_is_reported_while_windows_rotate)
{
	static struct crowd crowd;
	u64 sampled;

	hab_throttle_set_rate(&crowd.throttle, 5000, HAB_SECOND_MS, count_end, &crowd);
	run_crowd(&crowd, rotate);
	sampled = hab_counter_read(&crowd.throttle.sampled);
	TH_LOG("%lu windows, %lu sampled, %lu replaced", (long)crowd.throttle.number, (long)sampled,
	       (long)hab_counter_read(&crowd.replaced));
	EXPECT_EQ(THREADS * EVENTS, sampled + hab_throttle_throttled(&crowd.throttle));
	EXPECT_EQ(hab_counter_read(&crowd.kept), sampled);
	/* Events that were delayed for two rotations are reported and were not kept. */
	EXPECT_GE(crowd.used, sampled);
	EXPECT_EQ(0, crowd.impossible);
	EXPECT_LE(sampled, (crowd.throttle.number + 1) * 1000);
}

static void rotate_and_set(struct crowd *crowd, u64 round)
{
	static const u32 rates[] = { 100, 0, HAB_RATE_OFF, 7, 1000000 };

	if (round % 10)
		rotate(crowd, round);
	else
		hab_throttle_set_rate(&crowd->throttle, rates[round / 10 % 5], HAB_SECOND_MS,
				      count_end, crowd);
}

TEST(each_event_counts_while_rates_change)
{
	static struct crowd crowd;
	u64 sampled;

	hab_throttle_set_rate(&crowd.throttle, 100, HAB_SECOND_MS, count_end, &crowd);
	run_crowd(&crowd, rotate_and_set);
	sampled = hab_counter_read(&crowd.throttle.sampled);
	EXPECT_EQ(THREADS * EVENTS, sampled + hab_throttle_throttled(&crowd.throttle));
	EXPECT_EQ(hab_counter_read(&crowd.kept), sampled);
	EXPECT_EQ(0, crowd.impossible);
}

TEST_HARNESS_MAIN
