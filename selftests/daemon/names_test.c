// SPDX-License-Identifier: GPL-2.0-only
/* Tests the table of names of functions that an interpreter runs. */
#include "kselftest_harness.h"

#include <stdlib.h>

#include "daemon/collect/interpreter_names.h"

FIXTURE(names)
{
	struct names *names;
};

FIXTURE_SETUP(names)
{
	self->names = names_new();
}

FIXTURE_TEARDOWN(names)
{
	names_free(self->names);
	EXPECT_EQ(0, limits_own.used[LIMITED_NAMES]);
}

static uint32_t add(struct _test_data_names *self, const char *function, const char *file,
		    unsigned int line)
{
	return names_add(self->names, function, strlen(function), file, strlen(file), line);
}

TEST_F(names, a_function_with_file_and_line_has_one_number)
{
	uint32_t number = add(self, "run", "/a.py", 7);
	struct frame_name name = names_get(self->names, number);

	EXPECT_NE(0, number);
	EXPECT_EQ(number, add(self, "run", "/a.py", 7));
	EXPECT_NE(number, add(self, "run", "/a.py", 8));
	EXPECT_NE(number, add(self, "run", "/b.py", 7));
	EXPECT_NE(number, add(self, "ru", "n/a.py", 7));
	EXPECT_STREQ("run", name.function);
	EXPECT_STREQ("/a.py", name.file);
	EXPECT_EQ(7, name.line);
}

TEST_F(names, what_a_program_says_is_cleaned_and_limited)
{
	char function[1000], file[1000];
	struct frame_name name;

	memset(function, 'f', sizeof(function));
	memset(file, 'd', sizeof(file));
	memcpy(file + sizeof(file) - 6, "/\001.py", 5);
	file[sizeof(file) - 1] = 'x';
	name = names_get(self->names,
			 names_add(self->names, function, sizeof(function), file, sizeof(file), 1));
	EXPECT_EQ(240, strlen(name.function));
	EXPECT_EQ(480, strlen(name.file));
	EXPECT_STREQ("/?.pyx", name.file + 474);
	name = names_get(self->names, names_add(self->names, "a\0b", 3, "\xff", 1, 1));
	EXPECT_STREQ("a", name.function);
	EXPECT_STREQ("?", name.file);
}

TEST_F(names, a_number_that_is_none_has_the_name_of_an_unknown_function)
{
	EXPECT_STREQ("[unknown function]", names_get(self->names, 0).function);
	EXPECT_STREQ("[unknown function]", names_get(self->names, 5).function);
	EXPECT_STREQ("[unknown function]", names_get(self->names, UINT32_MAX).function);
}

static void fill(struct _test_data_names *self)
{
	unsigned int i;

	for (i = 1; i < NAMES_MAX; i++)
		add(self, "f", "", i);
}

TEST_F(names, a_full_table_refuses_and_says_so)
{
	uint64_t refused = limits_own.refused[LIMITED_NAMES];

	fill(self);
	EXPECT_EQ(0, add(self, "more", "", 1));
	EXPECT_EQ(refused + 1, limits_own.refused[LIMITED_NAMES]);
	EXPECT_NE(0, add(self, "f", "", 1));
	EXPECT_TRUE(names_are_crowded(self->names));
}

TEST_F(names, names_that_nothing_uses_are_dropped_and_others_keep_their_numbers)
{
	bool *used = calloc(NAMES_MAX, 1);
	uint32_t number;

	fill(self);
	number = add(self, "f", "", 1000);
	used[number] = true;
	EXPECT_EQ(NAMES_MAX - 2, names_evict(self->names, used));
	EXPECT_EQ(1000, names_get(self->names, number).line);
	EXPECT_EQ(number, add(self, "f", "", 1000));
	EXPECT_FALSE(names_are_crowded(self->names));
	fill(self);
	EXPECT_EQ(1000, names_get(self->names, number).line);
	free(used);
}

TEST_F(names, nothing_is_dropped_while_a_profile_is_made)
{
	fill(self);
	names_hold(self->names);
	EXPECT_FALSE(names_are_crowded(self->names));
	names_release(self->names);
	EXPECT_TRUE(names_are_crowded(self->names));
}

TEST_HARNESS_MAIN
