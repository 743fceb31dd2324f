// SPDX-License-Identifier: GPL-2.0-only
/*
 * Tests the table of binaries against other users: wrong build ids, files that fill the table, and
 * what is evicted.
 */
#include "kselftest_harness.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/symbols/binaries.h"

#define OTHER_USER 65533

FIXTURE(binaries)
{
	struct binaries *binaries;
};

FIXTURE_SETUP(binaries)
{
	self->binaries = binaries_new();
}

FIXTURE_TEARDOWN(binaries)
{
	binaries_free(self->binaries);
}

/* A file with the same build id each time, and with an inode of its own. */
static struct binary_file make_file(bool trusted)
{
	static ino_t inode;
	struct binary_file file = { .fd = memfd_create("binaries_test", MFD_CLOEXEC),
				    .build_id_length = HAB_BUILD_ID_LEN,
				    .inode = ++inode,
				    .trusted = trusted };

	memset(file.build_id, 7, sizeof(file.build_id));
	return file;
}

static unsigned int add_file(struct _test_data_binaries *self, const char *path, bool trusted,
			     uid_t user)
{
	struct binary_file file = make_file(trusted);

	return binaries_add_file(self->binaries, &file, path, user);
}

static const uint8_t *id_of(struct _test_data_binaries *self, unsigned int number)
{
	return binaries_get(self->binaries, number)->file.build_id;
}

TEST_F(binaries, two_files_of_root_with_one_build_id_are_one_binary)
{
	unsigned int first = add_file(self, "/a", true, 0);

	EXPECT_NE(BINARY_UNKNOWN, first);
	EXPECT_EQ(first, add_file(self, "/b", true, 0));
}

TEST_F(binaries, a_file_of_another_user_shares_no_build_id_with_a_file_of_root)
{
	unsigned int planted, real, writable;

	planted = add_file(self, "/planted", false, OTHER_USER);
	real = add_file(self, "/real", true, 0);
	writable = add_file(self, "/writable", false, 0);
	EXPECT_NE(planted, real);
	EXPECT_NE(writable, real);
	EXPECT_STREQ("/real", binaries_get(self->binaries, real)->path);
	/* A build id of the kernel's stack is that of root's file. */
	EXPECT_EQ(real, binaries_find_id(self->binaries, id_of(self, real), OTHER_USER));
}

TEST_F(binaries, a_build_id_that_only_another_user_has_stays_unnamed)
{
	unsigned int planted = add_file(self, "/planted", false, OTHER_USER);
	unsigned int unnamed = binaries_find_id(self->binaries, id_of(self, planted), 0);

	EXPECT_NE(planted, unnamed);
	EXPECT_EQ(-1, binaries_get(self->binaries, unnamed)->file.fd);
}

TEST_F(binaries, a_user_who_maps_it_first_under_another_path_does_not_name_a_file)
{
	struct binary_file file = make_file(true), again = file;
	unsigned int number;

	again.fd = dup(file.fd);
	again.roots_path = true;
	number = binaries_add_file(self->binaries, &file, "/tmp/x/libhab.so.0", OTHER_USER);
	EXPECT_EQ(number, binaries_add_file(self->binaries, &again, "/lib/libc.so.6", 0));
	EXPECT_STREQ("/lib/libc.so.6", binaries_get(self->binaries, number)->path);
	again.fd = dup(binaries_get(self->binaries, number)->file.fd);
	again.roots_path = false;
	binaries_add_file(self->binaries, &again, "/tmp/x/libhab.so.0", OTHER_USER);
	EXPECT_STREQ("/lib/libc.so.6", binaries_get(self->binaries, number)->path);
}

TEST_F(binaries, a_file_that_another_user_maps_first_counts_for_its_owner_later)
{
	struct binary_file file = make_file(false), again;
	unsigned int number;

	file.owner = OTHER_USER - 1;
	again = file;
	again.fd = dup(file.fd);
	number = binaries_add_file(self->binaries, &file, "/home/x/program", OTHER_USER);
	EXPECT_EQ(OTHER_USER, binaries_get(self->binaries, number)->user);
	binaries_add_file(self->binaries, &again, "/home/x/program", OTHER_USER - 1);
	EXPECT_EQ(OTHER_USER - 1, binaries_get(self->binaries, number)->user);
}

TEST_F(binaries, files_that_one_user_maps_cannot_fill_the_table)
{
	unsigned int i, number = 0, refused = 0;

	for (i = 0; i < BINARIES_MAX && !refused; i++) {
		number = add_file(self, "/x", false, OTHER_USER);
		refused += number == BINARY_UNKNOWN;
	}
	EXPECT_EQ(1, refused);
	EXPECT_EQ(1, binaries_refused(self->binaries));
	EXPECT_LT(binaries_count(self->binaries), BINARIES_MAX / 4);
	number = add_file(self, "/libc.so.6", true, 0);
	EXPECT_NE(BINARY_UNKNOWN, number);
	number = add_file(self, "/y", false, OTHER_USER - 1);
	EXPECT_NE(BINARY_UNKNOWN, number);
}

TEST_F(binaries, names_without_a_file_leave_room_for_files)
{
	char name[32];
	int i;

	for (i = 0; i < BINARIES_MAX; i++) {
		snprintf(name, sizeof(name), "/unreadable/%d", i);
		binaries_add_name(self->binaries, name, OTHER_USER);
	}
	EXPECT_NE(BINARY_UNKNOWN, add_file(self, "/libc.so.6", true, 0));
}

TEST_F(binaries, what_is_not_used_makes_room)
{
	static bool used[BINARIES_MAX];
	unsigned int kept = add_file(self, "/kept", true, OTHER_USER), i, number = kept;

	for (i = 0; i < BINARIES_OF_USER && number != BINARY_UNKNOWN; i++)
		number = add_file(self, "/x", false, OTHER_USER);
	EXPECT_EQ(BINARY_UNKNOWN, number);
	EXPECT_TRUE(binaries_are_crowded(self->binaries));
	used[kept] = true;
	EXPECT_LE(BINARIES_OF_USER - 1, binaries_evict(self->binaries, used));
	EXPECT_FALSE(binaries_are_crowded(self->binaries));
	EXPECT_STREQ("/kept", binaries_get(self->binaries, kept)->path);
	number = add_file(self, "/new", false, OTHER_USER);
	EXPECT_NE(BINARY_UNKNOWN, number);
	EXPECT_STREQ("/new", binaries_get(self->binaries, number)->path);
}

TEST_F(binaries, a_binary_with_a_reference_keeps_its_file_open)
{
	static const bool none[BINARIES_MAX];
	unsigned int number = add_file(self, "/x", false, OTHER_USER);
	struct binary *binary = binaries_get(self->binaries, number);
	uint64_t serial = binary->serial;
	int fd = binary->file.fd;

	binary_ref(binary);
	binaries_evict(self->binaries, none);
	EXPECT_LE(0, fcntl(fd, F_GETFD));
	EXPECT_STREQ("/x", binary->path);
	/* Its number is used again, its serial number is not. */
	EXPECT_EQ(number, add_file(self, "/y", false, OTHER_USER));
	EXPECT_NE(serial, binaries_get(self->binaries, number)->serial);
	binary_unref(binary);
	EXPECT_EQ(-1, fcntl(fd, F_GETFD));
}

TEST_F(binaries, users_together_leave_room_for_root)
{
	unsigned int user, i;

	for (user = 1; user <= BINARIES_MAX / BINARIES_OF_USER + 1; user++)
		for (i = 0; i < BINARIES_OF_USER; i++)
			add_file(self, "/x", false, user);
	EXPECT_GE(BINARIES_OF_USERS + 16, binaries_count(self->binaries));
	EXPECT_NE(BINARY_UNKNOWN, add_file(self, "/libc.so.6", true, 0));
}

TEST_HARNESS_MAIN
