// SPDX-License-Identifier: GPL-2.0-only
/*
 * What a program sees of its allocator is the same with the preload library, while the test is its
 * collector: a million random calls, all operators of C++, and what is resident.
 */
#include "kselftest_harness.h"
#include "collector.h"

/* HAB_CALLS in the environment: another number. In the gate a fifth. */
#define CALLS \
	(getenv("HAB_CALLS") ? getenv("HAB_CALLS") : getenv("HAB_GATE") ? "200000" : "1000000")

FIXTURE(calls)
{
	struct collector watched;
	struct collector bare;
};

FIXTURE_VARIANT(calls)
{
	const char *allocator;
	const char *quirks;   /* see calls.c */
	const char *may_fail; /* "0": operator new ends the process if there is no memory */
};

FIXTURE_VARIANT_ADD(calls, glibc){
	.allocator = "",
	.quirks = "",
	.may_fail = "1",
};

FIXTURE_VARIANT_ADD(calls, jemalloc){
	.allocator = "libjemalloc.so.2",
	.quirks = "p",
	.may_fail = "1",
};

FIXTURE_VARIANT_ADD(calls, tcmalloc){
	.allocator = "libtcmalloc_minimal.so.4",
	.quirks = "",
	.may_fail = "1",
};

FIXTURE_VARIANT_ADD(calls, mimalloc){
	.allocator = "libmimalloc.so.2.0",
	.quirks = "a",
	.may_fail = "0",
};

FIXTURE_SETUP(calls)
{
	collector_open(&self->watched);
	collector_open(&self->bare);
	self->bare.bare = true;
}

FIXTURE_TEARDOWN(calls)
{
	collector_close(&self->watched);
	collector_close(&self->bare);
}

static bool run(struct collector *collector, const char *allocator, char *const argv[])
{
	if (!collector_start(collector, allocator, argv))
		return false;
	collector_go(collector);
	return collector_finish(collector);
}

TEST_F_TIMEOUT(calls, random_calls_have_the_results_of_the_bare_allocator, 60)
{
	char *const argv[] = { "build/tests/malloc_calls", "1", CALLS, (char *)variant->quirks,
			       NULL };

	ASSERT_TRUE(run(&self->bare, variant->allocator, argv));
	ASSERT_EQ(0, self->bare.nr);
	ASSERT_TRUE(run(&self->watched, variant->allocator, argv));
	ASSERT_EQ(1, self->watched.nr);
	EXPECT_LT(100, self->watched.channels[0]->nr_samples);
	EXPECT_STREQ(self->bare.text, self->watched.text);
	TH_LOG("%lu samples, %lu lost, live step %lu", self->watched.channels[0]->nr_samples,
	       self->watched.channels[0]->channel->lost,
	       self->watched.channels[0]->channel->live_step);
}

TEST_F_TIMEOUT(calls, operators_of_cxx_are_seen_in_all_forms, 60)
{
	char *const argv[] = { "build/tests/malloc_news", "200000", (char *)variant->may_fail,
			       NULL };
	struct site_estimate estimate;
	struct site site;

	ASSERT_TRUE(run(&self->watched, variant->allocator, argv));
	ASSERT_TRUE(collector_site(&self->watched, "all", &site));
	EXPECT_EQ(0, self->watched.channels[0]->channel->lost);
	estimate = collector_estimate(self->watched.channels[0], &site);
	TH_LOG("allocated %.0f of %.0f, in use %.0f of %.0f; %lu samples, %lu live",
	       estimate.allocated, site.allocated, (double)estimate.in_use.bytes, site.in_use,
	       estimate.samples, estimate.in_use.samples);
	/* 13,000 samples, 640 live ones: more than 5.33 standard errors. */
	EXPECT_GT(site.allocated * 0.05, fabs(estimate.allocated - site.allocated));
	EXPECT_GT(site.in_use * 0.22, fabs((double)estimate.in_use.bytes - site.in_use));
}

/* The most that was resident, in KiB; -1: it did not end well. */
static long peak(const char *allocator, const char *way, bool bare)
{
	char *const argv[] = { "build/tests/malloc_sparse", (char *)way, NULL };
	struct collector collector;
	long result = -1;

	collector_open(&collector);
	collector.bare = bare;
	/* mimalloc gives back what is freed at once, not after a while. */
	setenv("MIMALLOC_DECOMMIT_DELAY", "0", 1);
	if (run(&collector, allocator, argv))
		result = atol(collector.text);
	collector_close(&collector);
	return result;
}

static bool peak_is_the_bare_one(const char *allocator, const char *way)
{
	long bare = peak(allocator, way, true), watched = peak(allocator, way, false);

	printf("# %s: %ld KiB resident, and %ld bare\n", way, watched, bare);
	return bare > 0 && watched > 0 && watched <= bare + bare / 100 + 4096;
}

TEST_F_TIMEOUT(calls, what_a_program_does_not_touch_is_not_resident, 120)
{
	static const char *const ways[] = {
		"table",	  "arrays",	      "rounds",	       "small_arrays",
		"heap",		  "aligned",	      "uninitialized", "growing_table",
		"growing_arrays", "shrinking_arrays", "filtered"
	};
	size_t i;

	for (i = 0; i < sizeof(ways) / sizeof(*ways); i++)
		EXPECT_TRUE(peak_is_the_bare_one(variant->allocator, ways[i]));
}

TEST_F_TIMEOUT(calls, what_a_program_has_freed_is_used_again, 60)
{
	EXPECT_TRUE(peak_is_the_bare_one(variant->allocator, "replaced_buffers"));
}

TEST_F_TIMEOUT(calls, memory_that_was_written_before_is_zero_from_calloc, 60)
{
	EXPECT_LT(0, peak(variant->allocator, "again", true));
	EXPECT_LT(0, peak(variant->allocator, "again", false));
	EXPECT_LT(0, peak(variant->allocator, "filtered_again", false));
}

/* Others than glibc copy it themselves. */
TEST(an_object_that_glibc_grows_by_its_pages_is_not_in_memory_twice)
{
	EXPECT_TRUE(peak_is_the_bare_one(NULL, "growing_vectors"));
}

/* Others add a page to an aligned object. */
TEST(what_a_program_has_freed_of_glibcs_is_used_again_for_small_buffers)
{
	EXPECT_TRUE(peak_is_the_bare_one(NULL, "replaced_pages"));
}

/* musl loads the library as well. */
TEST(random_calls_of_musls_allocator_have_the_results_of_the_bare_one)
{
	char *const argv[] = { "build/tests/malloc_calls_musl", "1", CALLS, "p", NULL };
	struct collector bare, watched;

	if (access(argv[0], X_OK))
		SKIP(return, "no musl-gcc here");
	collector_open(&bare);
	collector_open(&watched);
	bare.bare = watched.bare = true; /* no channel is waited for */
	watched.preloads = true;
	EXPECT_TRUE(run(&bare, NULL, argv));
	EXPECT_TRUE(run(&watched, NULL, argv));
	EXPECT_STREQ(bare.text, watched.text);
	EXPECT_EQ(0, watched.nr);
	collector_close(&bare);
	collector_close(&watched);
}

FIXTURE(twice)
{
	struct collector watched;
	struct collector bare;
};

FIXTURE_SETUP(twice)
{
	collector_open(&self->watched);
	collector_open(&self->bare);
	self->bare.bare = true;
}

FIXTURE_TEARDOWN(twice)
{
	collector_close(&self->watched);
	collector_close(&self->bare);
}

/* The program is linked with jemalloc. */
TEST_F(twice, random_calls_of_jemallocs_own_interface_have_the_results_of_the_bare_one)
{
	char *const argv[] = { "build/tests/malloc_allocx", "1", CALLS, NULL };

	EXPECT_TRUE(run(&self->bare, NULL, argv));
	EXPECT_TRUE(run(&self->watched, NULL, argv));
	EXPECT_STREQ(self->bare.text, self->watched.text);
	ASSERT_EQ(1, self->watched.nr);
	EXPECT_LT(100, self->watched.channels[0]->nr_samples);
}

/* The C library stands before jemalloc: malloc() is the one's, mallocx() the other's. */
TEST_F(twice, jemallocs_own_interface_beside_another_malloc_has_the_results_of_the_bare_one)
{
	char *const argv[] = { "build/tests/malloc_allocx_behind", "1", CALLS, NULL };

	EXPECT_TRUE(run(&self->bare, NULL, argv));
	EXPECT_TRUE(run(&self->watched, NULL, argv));
	EXPECT_EQ(0, self->watched.status);
	EXPECT_STREQ(self->bare.text, self->watched.text);
	EXPECT_EQ(1, self->watched.nr);
}

/* tcmalloc's for debugging ends a program that frees an object by the wrong function. */
TEST_F(twice, an_allocator_that_checks_frees_finds_no_wrong_one)
{
	char *const argv[] = { "build/tests/malloc_news", "200000", "1", NULL };

	if (system("/sbin/ldconfig -p | grep -q libtcmalloc_minimal_debug.so.4"))
		SKIP(return, "no libtcmalloc_minimal_debug.so.4 here");
	ASSERT_TRUE(run(&self->bare, "libtcmalloc_minimal_debug.so.4", argv));
	EXPECT_TRUE(run(&self->watched, "libtcmalloc_minimal_debug.so.4", argv));
	EXPECT_EQ(0, self->watched.status);
	EXPECT_STREQ(self->bare.text, self->watched.text);
	ASSERT_EQ(1, self->watched.nr);
	EXPECT_LT(100, self->watched.channels[0]->nr_samples);
}

TEST_HARNESS_MAIN
