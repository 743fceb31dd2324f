// SPDX-License-Identifier: GPL-2.0-only
/*
 * The preload library against the truth: a program with known sites runs with it, and the test is
 * its collector.
 *
 * At the interval of 4 KiB a site of 40 MB has some 10,000 samples, so that its estimate has a
 * standard error of 1 %. Limits are 5.33 standard errors, and at least 5 %.
 */
#include <sys/prctl.h>
#include <sys/resource.h>

#include "wire/interval.h"
#include "kselftest_harness.h"
#include "collector.h"

#define TARGET "build/tests/malloc_target"

FIXTURE(channel)
{
	struct collector collector;
};

FIXTURE_VARIANT(channel)
{
	const char *allocator;
};

FIXTURE_VARIANT_ADD(channel, glibc){
	.allocator = NULL,
};

FIXTURE_VARIANT_ADD(channel, jemalloc){
	.allocator = "libjemalloc.so.2",
};

FIXTURE_VARIANT_ADD(channel, tcmalloc){
	.allocator = "libtcmalloc_minimal.so.4",
};

FIXTURE_VARIANT_ADD(channel, mimalloc){
	.allocator = "libmimalloc.so.2.0",
};

FIXTURE_SETUP(channel)
{
	collector_open(&self->collector);
}

FIXTURE_TEARDOWN(channel)
{
	collector_close(&self->collector);
}

static bool run(struct collector *collector, const char *allocator, const char *mode)
{
	char *const argv[] = { TARGET, (char *)mode, NULL };

	if (!collector_start(collector, allocator, argv))
		return false;
	collector_go(collector);
	return collector_finish(collector);
}

static bool is_within(double estimate, double truth, double percent)
{
	return fabs(estimate - truth) <= truth * percent / 100;
}

#define EXPECT_SITE(name, allocated_percent, in_use_percent)                                     \
	do {                                                                                     \
		struct site site;                                                                \
		struct site_estimate estimate;                                                   \
                                                                                                 \
		ASSERT_TRUE(collector_site(&self->collector, name, &site));                      \
		estimate = collector_estimate(self->collector.channels[0], &site);               \
		TH_LOG("%s: allocated %.0f of %.0f, in use %.0f of %.0f; %lu samples, %lu live", \
		       name, estimate.allocated, site.allocated, (double)estimate.in_use.bytes,  \
		       site.in_use, estimate.samples, estimate.in_use.samples);                  \
		EXPECT_TRUE(is_within(estimate.allocated, site.allocated, allocated_percent));   \
		EXPECT_TRUE(                                                                     \
			is_within((double)estimate.in_use.bytes, site.in_use, in_use_percent));  \
	} while (0)

TEST_F(channel, sites_have_what_they_allocated_and_what_is_in_use)
{
	ASSERT_TRUE(run(&self->collector, variant->allocator, "sites"));
	ASSERT_EQ(1, self->collector.nr);
	ASSERT_FALSE(self->collector.channels[0]->nonsense);
	EXPECT_EQ(0, self->collector.channels[0]->channel->lost);
	EXPECT_EQ(1, self->collector.channels[0]->channel->live_step);
	EXPECT_SITE("small_leak", 14, 15);
	EXPECT_SITE("large_leak", 5, 15);
	EXPECT_SITE("churn", 6, 0);
	EXPECT_SITE("zeroed", 6, 0);
	EXPECT_SITE("aligned", 13, 15);
	EXPECT_SITE("vector", 5, 15);
	EXPECT_SITE("list", 26, 22);
	EXPECT_SITE("mapped", 5, 15);
	EXPECT_SITE("trimmed", 5, 15);
}

TEST_F(channel, buffers_that_shrink_and_grow_are_in_use_once)
{
	/* Of 8 buffers one is live. */
	ASSERT_TRUE(run(&self->collector, variant->allocator, "buffers"));
	EXPECT_SITE("buffers", 25, 64);
}

TEST_F(channel, more_live_samples_than_slots_are_halved_at_random)
{
	ASSERT_TRUE(run(&self->collector, variant->allocator, "many"));
	EXPECT_LE(4, self->collector.channels[0]->channel->live_step);
	EXPECT_SITE("small_leak", 5, 15);
}

TEST_F(channel, samples_of_threads_by_the_thousand_count)
{
	ASSERT_TRUE(run(&self->collector, variant->allocator, "threads"));
	EXPECT_EQ(0, self->collector.channels[0]->channel->lost);
	EXPECT_SITE("churn", 6, 0);
}

TEST_F(channel, children_of_a_busy_process_have_channels_of_their_own)
{
	int i;

	ASSERT_TRUE(run(&self->collector, variant->allocator, "fork"));
	ASSERT_EQ(41, self->collector.nr);
	for (i = 1; i < 41; i++) {
		ASSERT_FALSE(self->collector.channels[i]->nonsense);
		ASSERT_LT(20, self->collector.channels[i]->nr_samples);
		ASSERT_NE(0, self->collector.channels[i]->nr_maps);
		ASSERT_EQ(self->collector.channels[i]->pid,
			  (pid_t)self->collector.channels[i]->samples[0].head.pid);
	}
}

TEST_F(channel, a_channel_that_another_program_writes_changes_no_object)
{
	self->collector.scribbles = true;
	ASSERT_TRUE(run(&self->collector, variant->allocator, "signals"));
}

/* Test-all: how much is lost depends on the machine's speed, and few samples decide. */
TEST_F(channel, what_is_in_the_ring_of_a_collector_that_never_read_stands_for_all)
{
	double sum, variance;
	struct channel_read *read;

	self->collector.stalls = true;
	ASSERT_TRUE(run(&self->collector, variant->allocator, "signals"));
	read = self->collector.channels[0];
	collector_read(read);
	ASSERT_FALSE(read->nonsense);
	sum = channel_read_stands_for(read, &variance);
	TH_LOG("%lu samples and %lu lost stand for %.0f bytes of %lu, standard error %.0f",
	       read->nr_samples, read->channel->lost, sum, read->channel->allocated,
	       sqrt(variance));
	/* The few with the largest intervals decide, so the variance itself varies much. */
	EXPECT_GT(8 * sqrt(variance), fabs(sum - (double)read->channel->allocated));
	EXPECT_GT(0.6, sqrt(variance) / sum);
}

TEST_F(channel, signals_at_any_moment_change_no_object)
{
	ASSERT_TRUE(run(&self->collector, variant->allocator, "signals"));
	EXPECT_LT(100, self->collector.channels[0]->nr_samples);
}

TEST_F(channel, the_last_records_of_a_killed_program_can_be_read)
{
	ASSERT_FALSE(run(&self->collector, variant->allocator, "kill"));
	ASSERT_TRUE(WIFSIGNALED(self->collector.status));
	EXPECT_SITE("churn", 27, 0);
}

TEST_F(channel, a_program_may_close_all_descriptors)
{
	ASSERT_TRUE(run(&self->collector, variant->allocator, "descriptors"));
	EXPECT_SITE("churn", 27, 0);
}

TEST_F(channel, maps_come_before_the_first_sample)
{
	ASSERT_TRUE(run(&self->collector, variant->allocator, "descriptors"));
	EXPECT_EQ(0, self->collector.channels[0]->samples_before_maps);
	EXPECT_NE(NULL, strstr(self->collector.channels[0]->maps, "malloc_target"));
	EXPECT_NE(NULL, strstr(self->collector.channels[0]->maps, "libhab-malloc.so"));
	EXPECT_EQ(NULL, strstr(self->collector.channels[0]->maps, "[stack]"));
}

/* As readelf prints it, in a line of the maps. */
static bool maps_have_id(const char *maps, const char *file)
{
	char command[200], line[100] = HAB_MAPS_BUILD_ID;
	size_t prefix = strlen(line);
	FILE *output;

	snprintf(command, sizeof(command), "readelf -n %s | sed -n 's/.*Build ID: //p'", file);
	output = popen(command, "r");
	if (!output || !fgets(line + prefix, (int)(sizeof(line) - prefix), output))
		abort();
	pclose(output);
	return strlen(line) > prefix + 2 * 8 && strstr(maps, line);
}

TEST_F(channel, maps_have_the_build_ids_of_files)
{
	const char *maps;

	ASSERT_TRUE(run(&self->collector, variant->allocator, "descriptors"));
	maps = self->collector.channels[0]->maps;
	EXPECT_TRUE(maps_have_id(maps, TARGET));
	EXPECT_TRUE(maps_have_id(maps, "build/libhab-malloc.so"));
	EXPECT_TRUE(maps_have_id(maps, "$(ldd " TARGET " | awk '/libc.so.6/ { print $3 }')"));
}

/* --- on glibc alone --------------------------------------------------------------------- */

FIXTURE(start)
{
	struct collector collector;
};

FIXTURE_SETUP(start)
{
	collector_open(&self->collector);
}

FIXTURE_TEARDOWN(start)
{
	collector_close(&self->collector);
}

TEST_F(start, a_program_that_has_sandboxed_itself_is_not_hurt)
{
	ASSERT_TRUE(run(&self->collector, NULL, "sandbox"));
	ASSERT_EQ(1, self->collector.nr);
	EXPECT_SITE("churn", 27, 0);
}

TEST_F(start, behind_a_filter_that_was_not_announced_no_channel_is_made)
{
	ASSERT_TRUE(run(&self->collector, NULL, "filtered"));
	EXPECT_EQ(1, self->collector.nr);
}

TEST_F(start, behind_a_filter_that_was_announced_there_is_a_channel)
{
	setenv("HAB_FILTERS", "1", 1);
	ASSERT_TRUE(run(&self->collector, NULL, "filtered"));
	EXPECT_EQ(2, self->collector.nr);
}

TEST_F(start, a_program_with_a_limit_of_file_sizes_is_not_hurt)
{
	struct rlimit limit = { 4096, RLIM_INFINITY }, before;
	bool ended;

	getrlimit(RLIMIT_FSIZE, &before);
	setrlimit(RLIMIT_FSIZE, &limit);
	self->collector.bare = true; /* no channel is waited for */
	self->collector.preloads = true;
	ended = run(&self->collector, NULL, "none");
	setrlimit(RLIMIT_FSIZE, &before);
	ASSERT_TRUE(ended);
	EXPECT_EQ(0, self->collector.nr);
}

TEST_F(start, after_the_collector_has_closed_the_channel_nothing_is_written)
{
	self->collector.closes = true;
	ASSERT_TRUE(run(&self->collector, NULL, "kill") || WIFSIGNALED(self->collector.status));
	ASSERT_LE(1, self->collector.nr);
	EXPECT_GT(5, self->collector.channels[0]->nr_samples);
}

/* Until the program waits for its descriptor 3. */
static void wait_until_it_sleeps(const struct collector *collector)
{
	char path[64], name[32] = "", state = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/stat", collector->pid);
	while (strcmp(name, "malloc_target") || state != 'S') {
		usleep(1000);
		file = fopen(path, "r");
		if (!file || fscanf(file, "%*d (%31[^)]) %c", name, &state) != 2)
			state = 0;
		if (file)
			fclose(file);
	}
}

TEST_F(start, a_program_that_finds_the_collector_busy_connects_later)
{
	char *const argv[] = { TARGET, "until_told", NULL };
	struct collector *collector = &self->collector;
	int fds[CHANNELS_MAX], nr = 0;

	/* It accepts no more. */
	ASSERT_EQ(0, listen(collector->listener, 1));
	do
		fds[nr] = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	while (!connect(fds[nr++], (struct sockaddr *)&collector->address,
			sizeof(collector->address)));
	ASSERT_EQ(EAGAIN, errno);
	ASSERT_TRUE(collector_start(collector, NULL, argv));
	wait_until_it_sleeps(collector);
	while (nr)
		close(fds[--nr]);
	collector->bare = true; /* no channel is waited for */
	collector_go(collector);
	while (!collector->nr || !collector->channels[0]->nr_samples) {
		collector_poll(collector);
		usleep(1000);
	}
	ASSERT_EQ(1, write(collector->go, "e", 1));
	EXPECT_TRUE(collector_finish(collector));
	EXPECT_EQ(1, collector->nr);
}

/* Connects, without a channel, for ever. */
static pid_t start_crowd(const struct collector *collector)
{
	pid_t pid = fork();
	int fd;

	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(collector->listener);
	}
	while (!pid) {
		fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
		if (connect(fd, (struct sockaddr *)&collector->address, sizeof(collector->address)))
			_exit(1);
		close(fd);
	}
	return pid;
}

static void end_crowd(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

/*
 * Others wait for each place in the queue: a try that does not wait has none. Test-all: it needs a
 * CPU for the program and one for the others.
 */
TEST_F(start, a_program_gets_its_turn_after_seconds_with_a_busy_collector)
{
	char *const argv[] = { TARGET, "slower", NULL };
	struct collector *collector = &self->collector;
	pid_t crowd[2];
	int i;

	ASSERT_EQ(0, listen(collector->listener, 0));
	for (i = 0; i < 2; i++)
		crowd[i] = start_crowd(collector);
	ASSERT_TRUE(collector_start(collector, NULL, argv));
	wait_until_it_sleeps(collector);
	collector->bare = true; /* no channel is waited for */
	collector_go(collector);
	/* Its pauses have their greatest length after one second. */
	usleep(2500000);
	for (i = 0; i < 2000 && !collector->nr; i++) {
		collector_accept(collector);
		usleep(1000);
	}
	for (i = 0; i < 2; i++)
		end_crowd(crowd[i]);
	EXPECT_EQ(1, collector->nr);
	EXPECT_TRUE(collector_finish(collector));
}

/* Test-all: it needs a CPU for the program for two seconds. */
TEST_F(start, the_interval_follows_the_share)
{
	const struct channel_read *read;
	double steady;

	self->collector.fixed = 0;
	self->collector.share = 20 << HAB_SHARE_SHIFT;
	ASSERT_TRUE(run(&self->collector, NULL, "hot"));
	read = self->collector.channels[0];
	steady = collector_steady_interval(&self->collector, read, 2);
	TH_LOG("%lu samples, the last at %llu bytes, %.0f expected", read->nr_samples,
	       read->samples[read->nr_samples - 1].interval, steady);
	/* 28 in each of ten windows, and some hundred at the start. */
	EXPECT_LT(100, read->nr_samples);
	EXPECT_GT(1500, read->nr_samples);
	EXPECT_LT(steady / 4, read->samples[read->nr_samples - 1].interval);
	EXPECT_GT(steady * 4, read->samples[read->nr_samples - 1].interval);
}

TEST_F(start, the_sum_of_allocated_bytes_is_of_half_a_mebibyte_ago_at_most)
{
	struct site site;

	self->collector.fixed = 0;
	ASSERT_TRUE(run(&self->collector, NULL, "hot"));
	ASSERT_TRUE(collector_site(&self->collector, "churn", &site));
	/* And the two large objects at the start. */
	EXPECT_GT(5 << 20,
		  fabs(site.allocated - (double)self->collector.channels[0]->channel->allocated));
}

TEST_F(start, mappings_of_a_library_that_was_opened_later_are_sent)
{
	ASSERT_TRUE(run(&self->collector, NULL, "plugin"));
	EXPECT_LT(1, self->collector.channels[0]->nr_maps);
	EXPECT_NE(NULL, strstr(self->collector.channels[0]->maps, "malloc_plugin.so"));
}

TEST_F(start, a_child_by_vfork_writes_as_its_parent)
{
	ASSERT_TRUE(run(&self->collector, NULL, "vfork"));
	ASSERT_EQ(1, self->collector.nr);
	EXPECT_SITE("churn", 40, 0);
}

TEST_F(start, handlers_may_allocate_if_the_allocator_lets_them)
{
	ASSERT_TRUE(run(&self->collector, "build/tests/malloc_bump.so", "allocating_signals"));
	EXPECT_FALSE(self->collector.channels[0]->nonsense);
	EXPECT_LT(100, self->collector.channels[0]->nr_samples);
}

TEST_F(start, a_large_object_is_not_touched)
{
	ASSERT_TRUE(run(&self->collector, NULL, "untouched"));
	EXPECT_LT(0, self->collector.channels[0]->nr_samples);
}

TEST_HARNESS_MAIN
