// SPDX-License-Identifier: GPL-2.0-only
/* Tests turns: their order, their deadlines, and limits by user. */
#include "kselftest_harness.h"

#include <pthread.h>
#include <unistd.h>

#include "daemon/shared/turns.h"

FIXTURE(turns)
{
	struct turns turns;
	struct turn turn[8];
};

FIXTURE_SETUP(turns)
{
	turns_begin(&self->turns, 4);
}

FIXTURE_TEARDOWN(turns)
{
	turns_end(&self->turns);
}

TEST_F(turns, one_user_has_one_of_four_and_all_users_have_three)
{
	EXPECT_TRUE(turns_take(&self->turns, &self->turn[0], 7, 0));
	EXPECT_FALSE(turns_take(&self->turns, &self->turn[1], 7, 0));
	EXPECT_TRUE(turns_take(&self->turns, &self->turn[2], 8, 0));
	EXPECT_TRUE(turns_take(&self->turns, &self->turn[3], 9, 0));
	EXPECT_FALSE(turns_take(&self->turns, &self->turn[4], 10, 0));
	EXPECT_TRUE(turns_take(&self->turns, &self->turn[5], 0, 0));
	EXPECT_FALSE(turns_take(&self->turns, &self->turn[6], 0, 0));
	turns_give(&self->turns, &self->turn[0]);
	EXPECT_TRUE(turns_take(&self->turns, &self->turn[7], 7, 0));
}

TEST_F(turns, root_may_have_all_four)
{
	int i;

	for (i = 0; i < 4; i++)
		EXPECT_TRUE(turns_take(&self->turns, &self->turn[i], 0, 0));
	EXPECT_FALSE(turns_take(&self->turns, &self->turn[4], 0, 0));
}

static void *take_one(void *context)
{
	struct _test_data_turns *self = context;

	turns_take(&self->turns, &self->turn[1], 7, UINT64_MAX);
	return NULL;
}

TEST_F(turns, a_waiting_user_gets_the_turn_that_is_given_back)
{
	pthread_t thread;

	EXPECT_TRUE(turns_take(&self->turns, &self->turn[0], 7, 0));
	ASSERT_EQ(0, pthread_create(&thread, NULL, take_one, self));
	usleep(10000);
	/* It does not keep others from theirs. */
	EXPECT_TRUE(turns_take(&self->turns, &self->turn[2], 8, 0));
	turns_give(&self->turns, &self->turn[0]);
	pthread_join(thread, NULL);
	EXPECT_TRUE(self->turn[1].is_now);
}

TEST_HARNESS_MAIN
