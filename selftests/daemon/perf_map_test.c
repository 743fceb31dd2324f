// SPDX-License-Identifier: GPL-2.0-only
/* Perf maps: names of code that was made at run time. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/collect/perf_map.h"
#include "kselftest_harness.h"

FIXTURE(map)
{
	int fd;
	struct perf_map *map;
};

FIXTURE_SETUP(map)
{
	self->fd = memfd_create("map", MFD_CLOEXEC);
	self->map = NULL;
	ASSERT_LE(0, self->fd);
}

FIXTURE_TEARDOWN(map)
{
	perf_map_free(self->map);
	close(self->fd);
}

static void append(int fd, const char *text)
{
	if (write(fd, text, strlen(text)) < 0)
		exit(1);
}

TEST_F(map, an_address_has_the_function_that_covers_it)
{
	append(self->fd, "1000 20 first\n1020 10 JS:~second /tmp/a b.js:1:1\n");
	self->map = perf_map_read(self->fd);
	EXPECT_EQ(NULL, perf_map_find(self->map, 0xfff));
	EXPECT_STREQ("first", perf_map_find(self->map, 0x1000));
	EXPECT_STREQ("first", perf_map_find(self->map, 0x101f));
	EXPECT_STREQ("JS:~second /tmp/a b.js:1:1", perf_map_find(self->map, 0x1020));
	EXPECT_EQ(NULL, perf_map_find(self->map, 0x1030));
}

TEST_F(map, the_latest_function_at_an_address_counts)
{
	append(self->fd, "1000 100 old\n1080 10 inner\n1000 40 new\n");
	self->map = perf_map_read(self->fd);
	EXPECT_STREQ("new", perf_map_find(self->map, 0x1010));
	EXPECT_STREQ("old", perf_map_find(self->map, 0x1050));
	EXPECT_STREQ("inner", perf_map_find(self->map, 0x1085));
}

TEST_F(map, a_line_that_is_not_complete_is_read_later)
{
	append(self->fd, "1000 20 first\n1020 20 sec");
	self->map = perf_map_read(self->fd);
	EXPECT_EQ(NULL, perf_map_find(self->map, 0x1020));
	EXPECT_FALSE(perf_map_has_grown(self->map, self->fd));
	append(self->fd, "ond\n");
	EXPECT_TRUE(perf_map_has_grown(self->map, self->fd));
	perf_map_free(self->map);
	self->map = perf_map_read(self->fd);
	EXPECT_STREQ("second", perf_map_find(self->map, 0x1020));
}

TEST_F(map, lines_of_another_form_are_left_out)
{
	append(self->fd, "\nnonsense\n10\n20 \n30 10\n40 10 \n50 0 empty\n60 zz name\n"
			 "ffffffffffffffff 10 beyond\n70 fffffffff huge\n80 8 good\n");
	self->map = perf_map_read(self->fd);
	EXPECT_STREQ("good", perf_map_find(self->map, 0x80));
	EXPECT_EQ(NULL, perf_map_find(self->map, 0x30));
	EXPECT_EQ(NULL, perf_map_find(self->map, 0x50));
	EXPECT_EQ(NULL, perf_map_find(self->map, 0x70));
	EXPECT_EQ(NULL, perf_map_find(self->map, 0xffffffffffffffff));
}

TEST_F(map, an_empty_file_has_no_functions)
{
	self->map = perf_map_read(self->fd);
	EXPECT_EQ(NULL, perf_map_find(self->map, 0));
}

TEST(names_of_perf_maps_are_told_from_others)
{
	EXPECT_TRUE(perf_map_has_name("/tmp/perf-1.map"));
	EXPECT_FALSE(perf_map_has_name("/tmp/perf-.map"));
	EXPECT_FALSE(perf_map_has_name("/usr/lib/libperf-1.so"));
	EXPECT_FALSE(perf_map_has_name("perf-1"));
}

TEST_HARNESS_MAIN
