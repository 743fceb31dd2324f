// SPDX-License-Identifier: GPL-2.0-only
/*
 * Programs that do what few do: their results, their data and their end are those that they have
 * without the preload library, while a sample is taken of every few kilobytes.
 */
#include "kselftest_harness.h"
#include "collector.h"

FIXTURE(harm)
{
	struct collector bare;
	struct collector watched;
};

FIXTURE_SETUP(harm)
{
	collector_open(&self->bare);
	collector_open(&self->watched);
	self->bare.bare = true;
}

FIXTURE_TEARDOWN(harm)
{
	collector_close(&self->bare);
	collector_close(&self->watched);
}

#define PROGRAM "build/tests/malloc_harm"

static bool run(struct collector *collector, const char *program, const char *mode)
{
	char *const argv[] = { (char *)program, (char *)mode, NULL };

	if (!collector_start(collector, NULL, argv))
		return false;
	collector_go(collector);
	return collector_finish(collector);
}

/* At least @least processes were seen, and the first one with samples. */
#define SAME(promise, mode, least)                                                                 \
	TEST_F_TIMEOUT(harm, promise, 120)                                                         \
	{                                                                                          \
		ASSERT_TRUE(run(&self->bare, PROGRAM, mode));                                      \
		EXPECT_TRUE(run(&self->watched, PROGRAM, mode));                                   \
		EXPECT_EQ(self->bare.status, self->watched.status);                                \
		EXPECT_STREQ(self->bare.text, self->watched.text);                                 \
		ASSERT_LE(least, self->watched.nr);                                                \
		EXPECT_LT(10, self->watched.channels[0]->nr_samples);                              \
		TH_LOG("%d processes; of the first %lu samples, %lu maps", self->watched.nr,       \
		       self->watched.channels[0]->nr_samples, self->watched.channels[0]->nr_maps); \
	}

SAME(objects_that_a_plugin_with_deepbind_frees_unseen_keep_their_bytes, "deepbind", 1)
SAME(a_plugin_in_a_namespace_of_its_own_keeps_its_objects, "namespace", 1)
SAME(a_plugin_with_its_own_malloc_gets_its_objects_back, "own_malloc", 1)
SAME(a_constructor_may_wait_for_a_thread_that_allocates, "waiting_constructor", 1)
SAME(objects_of_each_plugin_are_of_its_own_operators, "pools", 1)
SAME(a_child_in_strict_seccomp_ends_by_itself, "strict", 1)
SAME(behind_a_filter_that_was_set_by_syscall_no_call_is_added, "raw_filter", 1)
SAME(a_child_of_one_that_asks_for_filters_is_followed, "asks_for_filters", 2)
SAME(a_child_by_vfork_that_prepares_for_filters_prepares_for_itself, "vfork_prepares", 2)
SAME(a_large_object_of_the_parent_is_not_copied, "large_realloc", 2)
SAME(children_by_clone_end_as_they_would, "clone", 5)
SAME(children_by_vfork_may_allocate, "vfork", 1)
SAME(a_daemon_that_closes_all_descriptors_gets_the_same_ones, "daemon", 2)
SAME(files_of_a_thread_that_closes_all_others_stay_open, "descriptors", 1)
SAME(at_its_limit_of_memory_a_program_loses_nothing, "address_space", 1)
SAME(at_its_limit_of_descriptors_a_program_opens_as_many, "files", 1)
SAME(coroutines_have_room_on_small_stacks, "coroutines", 5)
SAME(nothing_is_read_above_a_stack_when_it_is_gone, "switched_stacks", 1)
SAME(handlers_on_alternate_stacks_may_allocate, "alternate_stacks", 1)
SAME(constructors_and_destructors_find_their_objects, "order", 1)
SAME(what_nallocx_promises_is_the_objects, "real_size", 1)

/* No channel is waited for; there are at most @most. */
#define PRELOADED(promise, program, mode, most)                     \
	TEST_F_TIMEOUT(harm, promise, 120)                          \
	{                                                           \
		self->watched.bare = true;                          \
		self->watched.preloads = true;                      \
		ASSERT_TRUE(run(&self->bare, program, mode));       \
		EXPECT_TRUE(run(&self->watched, program, mode));    \
		EXPECT_EQ(self->bare.status, self->watched.status); \
		EXPECT_STREQ(self->bare.text, self->watched.text);  \
		EXPECT_GE(most, self->watched.nr);                  \
	}

PRELOADED(behind_a_filter_of_its_parent_a_program_starts, PROGRAM, "filtered_start", 1)
PRELOADED(without_a_clock_objects_are_allocated_as_before, PROGRAM, "without_clock", 2)
/* Their runtimes are libraries that have to be the first, and are not. */
PRELOADED(programs_with_the_address_sanitizer_run_unseen, PROGRAM "_address", "order", 0)
PRELOADED(programs_with_the_leak_sanitizer_run_unseen, PROGRAM "_leak", "order", 0)
PRELOADED(programs_with_the_thread_sanitizer_run_unseen, PROGRAM "_thread", "order", 0)

TEST_HARNESS_MAIN
