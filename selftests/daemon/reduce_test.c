// SPDX-License-Identifier: GPL-2.0-only
/* Which stacks stay when a profile is made smaller. */
#include <stdlib.h>
#include <string.h>

#include "daemon/profile/reduce.h"
#include "daemon/shared/util.h"

#include "kselftest_harness.h"

#define SAMPLES 4

FIXTURE(profile)
{
	struct profile profile;
};

/* Of an owner: each has allocated 1000 bytes less than the one before. */
FIXTURE_SETUP(profile)
{
	struct profile *profile = &self->profile;
	unsigned int i;

	*profile = (struct profile){ .nr_samples = SAMPLES, .nr_events = SAMPLES };
	profile->samples = xcalloc(SAMPLES, sizeof(*profile->samples));
	profile->events = xcalloc(SAMPLES, sizeof(*profile->events));
	for (i = 0; i < SAMPLES; i++) {
		profile->samples[i].key.pid = 100 + i;
		profile->samples[i].counts.samples = 1;
		profile->samples[i].counts.estimate = 1000 * (SAMPLES - i);
		profile->events[i].stack = i;
	}
}

FIXTURE_TEARDOWN(profile)
{
	free(self->profile.samples);
	free(self->profile.events);
}

TEST_F(profile, the_stacks_with_most_bytes_stay)
{
	struct profile *profile = &self->profile;

	profile_reduce(profile, 2);
	ASSERT_EQ(3, profile->nr_samples);
	EXPECT_EQ(100, profile->samples[0].key.pid);
	EXPECT_EQ(101, profile->samples[1].key.pid);
	EXPECT_EQ(0, profile->samples[2].key.pid);
	EXPECT_EQ(3000, profile->samples[2].counts.estimate);
	EXPECT_EQ(2, profile->samples[2].counts.samples);
}

/* As a cache that was filled long before. */
TEST_F(profile, a_stack_that_has_much_in_use_stays)
{
	struct profile *profile = &self->profile;

	profile->samples[3].counts.estimate = 0;
	profile->samples[3].in_use.bytes = 3500;
	profile_reduce(profile, 2);
	ASSERT_EQ(3, profile->nr_samples);
	EXPECT_EQ(100, profile->samples[0].key.pid);
	EXPECT_EQ(103, profile->samples[1].key.pid);
	EXPECT_EQ(3500, profile->samples[1].in_use.bytes);
	EXPECT_EQ(5000, profile->samples[2].counts.estimate);
}

TEST_F(profile, events_are_those_of_stacks_that_stay)
{
	struct profile *profile = &self->profile;

	profile->samples[3].in_use.bytes = 3500;
	profile_reduce(profile, 2);
	ASSERT_EQ(2, profile->nr_events);
	EXPECT_EQ(0, profile->events[0].stack);
	EXPECT_EQ(1, profile->events[1].stack);
	EXPECT_EQ(103, profile->samples[profile->events[1].stack].key.pid);
}

TEST_HARNESS_MAIN
