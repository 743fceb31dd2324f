// SPDX-License-Identifier: GPL-2.0-only
/*
 * The channel of a program with libhab and without the module: a program with a known site runs,
 * and the test is its collector. That what it sends stands for what was allocated, in all ways, is
 * in draws_test.c.
 *
 * At the interval of 4 KiB the site of 48 MB has some 12,000 samples, so that its estimate has a
 * standard error below 1 %. Limits are more than 5.33 of them.
 */
#include "kselftest_harness.h"
#include "selftests/malloc/collector.h"

#define TARGET "build/tests/channel_target"
#define DEPTH  60 /* of channel_target.c */

FIXTURE(channel)
{
	struct collector collector;
};

FIXTURE_SETUP(channel)
{
	collector_open(&self->collector);
	self->collector.bare = true;
}

FIXTURE_TEARDOWN(channel)
{
	collector_close(&self->collector);
}

static bool start(struct collector *collector, const char *mode)
{
	char *const argv[] = { TARGET, (char *)mode, NULL };

	bool started = collector_start(collector, NULL, argv);

	/* Without the preload library it has a channel, too. */
	collector->bare = false;
	return started;
}

static bool run(struct collector *collector, const char *mode)
{
	if (!start(collector, mode))
		return false;
	collector_go(collector);
	return collector_finish(collector);
}

#define EXPECT_SITE(name, read)                                                           \
	do {                                                                              \
		struct site_estimate estimate;                                            \
		struct site site;                                                         \
                                                                                          \
		ASSERT_TRUE(collector_site(&self->collector, name, &site));               \
		estimate = collector_estimate(read, &site);                               \
		TH_LOG("%s: %.0f of %.0f bytes, %lu samples", name, estimate.allocated,   \
		       site.allocated, estimate.samples);                                 \
		EXPECT_LT(fabs(estimate.allocated / site.allocated - 1), 0.05);           \
		EXPECT_LT(1000000, site.allocated);                                       \
	} while (0)

TEST_F(channel, samples_stand_for_what_the_program_allocates)
{
	const struct channel_read *read;

	ASSERT_TRUE(run(&self->collector, "all"));
	ASSERT_EQ(1, self->collector.nr);
	read = self->collector.channels[0];
	EXPECT_FALSE(read->nonsense);
	EXPECT_EQ(0, read->channel->lost);
	EXPECT_EQ(0, read->channel->live_step);
	EXPECT_STREQ("target", read->samples[0].heap_name);
	EXPECT_STREQ("", read->samples[0].comm);
	EXPECT_EQ(read->pid, (pid_t)read->samples[0].head.tid);
	EXPECT_SITE("objects", read);
	/* Up to the last sample. */
	EXPECT_LT(fabs((double)read->channel->allocated / (200 * 500 * 480.0) - 1), 0.01);
}

TEST_F(channel, under_the_preload_library_both_write_to_one_channel)
{
	self->collector.preloads = true;
	ASSERT_TRUE(run(&self->collector, "both"));
	ASSERT_EQ(1, self->collector.nr);
	EXPECT_FALSE(self->collector.channels[0]->nonsense);
	EXPECT_EQ(1, self->collector.channels[0]->channel->live_step);
	EXPECT_SITE("objects", self->collector.channels[0]);
	EXPECT_SITE("of_malloc", self->collector.channels[0]);
}

/* Threads have all their frames, though no page is tried. */
static u64 samples_of_depth(const struct channel_read *read, pid_t not_of)
{
	u64 i, nr = 0;

	for (i = 0; i < read->nr_samples; i++)
		nr += read->samples[i].nr_addresses > DEPTH &&
		      (pid_t)read->samples[i].head.tid != not_of;
	return nr;
}

TEST_F(channel, stacks_are_whole)
{
	const struct channel_read *read;

	ASSERT_TRUE(run(&self->collector, "deep"));
	read = self->collector.channels[0];
	EXPECT_LT(100, read->nr_samples);
	EXPECT_EQ(read->nr_samples, samples_of_depth(read, 0));
	EXPECT_LT(read->nr_samples / 4, samples_of_depth(read, read->pid));
}

TEST_F(channel, a_program_that_may_make_no_system_call_is_not_hurt)
{
	ASSERT_TRUE(run(&self->collector, "filtered"));
	EXPECT_STREQ("well\n", self->collector.text);
	EXPECT_LT(50, samples_of_depth(self->collector.channels[0], 0));
}

TEST_F(channel, a_thread_that_may_make_no_system_call_is_not_hurt)
{
	ASSERT_TRUE(run(&self->collector, "filtered_threads"));
	EXPECT_STREQ("well\n", self->collector.text);
	EXPECT_LT(50, samples_of_depth(self->collector.channels[0],
				       self->collector.channels[0]->pid));
}

/* There is no collector. */
static bool run_alone(struct collector *collector, const char *mode)
{
	char hidden[128];
	bool good;

	snprintf(hidden, sizeof(hidden), "%s.hidden", collector->address.sun_path);
	good = !rename(collector->address.sun_path, hidden) && start(collector, mode);
	collector->bare = true;
	collector_go(collector);
	return good && collector_finish(collector) && !collector->nr &&
	       !rename(hidden, collector->address.sun_path);
}

TEST_F(channel, a_heap_in_a_program_with_a_filter_looks_for_no_collector)
{
	ASSERT_TRUE(run_alone(&self->collector, "filtered_heap"));
	EXPECT_STREQ("well\n", self->collector.text);
}

TEST_F(channel, a_heap_in_a_thread_with_a_filter_looks_for_no_collector)
{
	ASSERT_TRUE(run_alone(&self->collector, "filtered_thread_heap"));
	EXPECT_STREQ("well\n", self->collector.text);
}

TEST_F(channel, a_heap_in_a_program_with_a_filter_sends_no_mappings)
{
	ASSERT_TRUE(run(&self->collector, "filtered_next_heap"));
	EXPECT_STREQ("well\n", self->collector.text);
	EXPECT_EQ(1, self->collector.channels[0]->nr_maps);
}

TEST_F(channel, a_coroutine_whose_makers_stack_is_gone_is_not_hurt)
{
	ASSERT_TRUE(run(&self->collector, "coroutine"));
	EXPECT_STREQ("well\n", self->collector.text);
	EXPECT_LT(50, self->collector.channels[0]->nr_samples);
}

TEST_F(channel, a_thread_that_may_only_read_and_write_is_not_hurt)
{
	ASSERT_TRUE(run(&self->collector, "strict_threads"));
	EXPECT_LT(50, samples_of_depth(self->collector.channels[0],
				       self->collector.channels[0]->pid));
}

TEST_F(channel, a_program_may_close_all_descriptors)
{
	ASSERT_TRUE(run(&self->collector, "descriptors"));
	EXPECT_SITE("objects", self->collector.channels[0]);
}

TEST_F(channel, a_child_has_a_channel_from_its_first_heap_on)
{
	struct collector *collector = &self->collector;

	ASSERT_TRUE(run(collector, "fork"));
	ASSERT_EQ(2, collector->nr);
	EXPECT_NE(collector->channels[0]->pid, collector->channels[1]->pid);
	EXPECT_FALSE(collector->channels[1]->nonsense);
	EXPECT_LT(20, collector->channels[1]->nr_samples);
	EXPECT_EQ(collector->channels[1]->pid,
		  (pid_t)collector->channels[1]->samples[0].head.tid);
	EXPECT_SITE("objects", collector->channels[0]);
}

TEST_F(channel, after_the_end_of_the_collector_the_next_heap_looks_for_another)
{
	self->collector.closes = true;
	ASSERT_TRUE(run(&self->collector, "next_heap"));
	ASSERT_EQ(2, self->collector.nr);
	EXPECT_EQ(0, self->collector.channels[0]->nr_samples);
}

/* The program waits before it looks for the collector again, which is there then. */
static bool run_before_collector(struct collector *collector, const char *mode)
{
	char hidden[128], byte;
	bool good;

	snprintf(hidden, sizeof(hidden), "%s.hidden", collector->address.sun_path);
	good = !rename(collector->address.sun_path, hidden) && start(collector, mode);
	collector->bare = true;
	collector_go(collector);
	while (good && read(collector->pace, &byte, 1) != 1)
		usleep(1000);
	return good && !collector->nr && !rename(hidden, collector->address.sun_path) &&
	       write(collector->go, "p", 1) == 1 && collector_finish(collector);
}

TEST_F(channel, a_program_that_ran_before_is_seen_from_its_next_heap_on)
{
	ASSERT_TRUE(run_before_collector(&self->collector, "next_heap"));
	ASSERT_EQ(1, self->collector.nr);
	EXPECT_SITE("objects", self->collector.channels[0]);
}

TEST_F(channel, a_thread_that_ran_before_has_whole_stacks)
{
	const struct channel_read *read;

	ASSERT_TRUE(run_before_collector(&self->collector, "earlier"));
	read = self->collector.channels[0];
	EXPECT_LT(50, read->nr_samples);
	EXPECT_EQ(read->nr_samples, samples_of_depth(read, read->pid));
}

TEST_F(channel, what_threads_have_allocated_after_their_last_sample_counts)
{
	self->collector.fixed = 0;
	ASSERT_TRUE(run(&self->collector, "short_threads"));
	EXPECT_EQ(200 * 50 * 480, self->collector.channels[0]->channel->allocated);
}

TEST_F(channel, regions_that_an_idle_thread_closes_count)
{
	struct hab_channel *channel;

	self->collector.fixed = 0;
	ASSERT_TRUE(run(&self->collector, "regions"));
	channel = self->collector.channels[0]->channel;
	EXPECT_LT(fabs((double)channel->allocated / (1000 * 80 * 480.0) - 1), 0.01);
}

TEST_F(channel, mappings_of_a_library_that_was_opened_later_are_sent_at_the_next_heap)
{
	const struct channel_read *read;

	ASSERT_TRUE(run(&self->collector, "library"));
	read = self->collector.channels[0];
	EXPECT_EQ(0, read->samples_before_maps);
	EXPECT_EQ(2, read->nr_maps);
	EXPECT_NE(NULL, strstr(read->maps, "channel_target"));
	EXPECT_NE(NULL, strstr(read->maps, "channel_library.so"));
}

/* Test-all: the few samples with the largest intervals decide, so the error has a long tail. */
TEST_F(channel, what_is_in_a_ring_that_nobody_read_stands_for_all)
{
	double sum, variance;
	struct channel_read *read;

	self->collector.stalls = true;
	ASSERT_TRUE(run(&self->collector, "unread"));
	read = self->collector.channels[0];
	collector_read(read);
	ASSERT_FALSE(read->nonsense);
	sum = channel_read_stands_for(read, &variance);
	TH_LOG("%lu samples and %lu lost stand for %.0f bytes, standard error %.0f",
	       read->nr_samples, read->channel->lost, sum, sqrt(variance));
	EXPECT_GT(5 * sqrt(variance), fabs(sum - 400000 * 480.0));
	EXPECT_GT(0.6, sqrt(variance) / sum);
}

TEST_HARNESS_MAIN
