// SPDX-License-Identifier: GPL-2.0-only
/* Tests the table of binaries: which files are one, what is refused, and what is evicted. */
#include "kselftest_harness.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/collect/binaries.h"

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

/* A file with an inode of its own, and with the build id if there is one. */
static struct binary_file make_file(unsigned char id)
{
	static ino_t inode;
	struct binary_file file = { .fd = memfd_create("binaries_test", MFD_CLOEXEC),
				    .build_id_length = id ? HAB_BUILD_ID_LEN : 0,
				    .inode = ++inode };

	memset(file.build_id, id, sizeof(file.build_id));
	return file;
}

static unsigned int add_file(struct _test_data_binaries *self, const char *path, unsigned char id)
{
	struct binary_file file = make_file(id);

	return binaries_add_file(self->binaries, &file, path);
}

TEST_F(binaries, two_files_with_one_build_id_are_two_binaries)
{
	struct binary_file file = make_file(7), again = file, larger = file;
	unsigned int first;

	again.fd = dup(file.fd);
	larger.fd = dup(file.fd);
	larger.size++;
	first = binaries_add_file(self->binaries, &file, "/a");
	EXPECT_NE(BINARY_UNKNOWN, first);
	EXPECT_EQ(first, binaries_add_file(self->binaries, &again, "/b"));
	EXPECT_NE(first, binaries_add_file(self->binaries, &larger, "/a"));
	EXPECT_NE(first, add_file(self, "/b", 7));
	EXPECT_NE(first, add_file(self, "/a", 8));
}

TEST_F(binaries, of_two_files_with_a_build_id_that_at_the_path_is_meant)
{
	struct binary_file file = make_file(7);
	unsigned int first = binaries_add_file(self->binaries, &file, "/a");
	unsigned int second = add_file(self, "/b", 7);
	uint8_t id[HAB_BUILD_ID_LEN];

	memset(id, 7, sizeof(id));
	EXPECT_EQ(first, binaries_find_id(self->binaries, id, sizeof(id), "/a"));
	EXPECT_EQ(second, binaries_find_id(self->binaries, id, sizeof(id), "/b"));
	EXPECT_EQ(first, binaries_find_id(self->binaries, id, sizeof(id), "/c"));
}

TEST_F(binaries, without_a_build_id_a_file_is_known_by_itself)
{
	struct binary_file file = make_file(0), again = file, changed = file;
	unsigned int number;

	again.fd = dup(file.fd);
	changed.fd = dup(file.fd);
	changed.changed.tv_nsec++;
	number = binaries_add_file(self->binaries, &file, "/a");
	EXPECT_EQ(number, binaries_add_file(self->binaries, &again, "/b"));
	EXPECT_NE(number, binaries_add_file(self->binaries, &changed, "/a"));
	EXPECT_NE(number, add_file(self, "/a", 0));
}

TEST_F(binaries, a_build_id_has_the_file_that_is_mapped_later)
{
	struct binary_file file = make_file(7);
	unsigned int number = binaries_find_id(self->binaries, file.build_id, HAB_BUILD_ID_LEN, NULL);

	EXPECT_EQ(-1, binaries_get(self->binaries, number)->file.fd);
	EXPECT_EQ(number, binaries_add_file(self->binaries, &file, "/a"));
	EXPECT_EQ(number, binaries_find_id(self->binaries, file.build_id, HAB_BUILD_ID_LEN, NULL));
	EXPECT_STREQ("/a", binaries_get(self->binaries, number)->path);
}

/* Until the table is full. Returns how many were added. */
static unsigned int fill(struct _test_data_binaries *self)
{
	unsigned int count = 0;
	char name[32];

	do
		snprintf(name, sizeof(name), "/unreadable/%u", count++);
	while (binaries_add_name(self->binaries, name) != BINARY_UNKNOWN);
	return count - 1;
}

TEST_F(binaries, a_full_table_refuses_files)
{
	fill(self);
	EXPECT_EQ(BINARIES_MAX, limits_own.used[LIMITED_BINARIES]);
	EXPECT_EQ(BINARY_UNKNOWN, add_file(self, "/x", 7));
	EXPECT_EQ(2, limits_own.refused[LIMITED_BINARIES]);
}

TEST_F(binaries, what_is_not_used_makes_room)
{
	static bool used[BINARIES_MAX];
	unsigned int kept = add_file(self, "/kept", 7), number, count;

	EXPECT_FALSE(binaries_are_crowded());
	count = fill(self);
	EXPECT_TRUE(binaries_are_crowded());
	used[kept] = true;
	EXPECT_EQ(count, binaries_evict(self->binaries, used));
	EXPECT_FALSE(binaries_are_crowded());
	EXPECT_STREQ("/kept", binaries_get(self->binaries, kept)->path);
	number = add_file(self, "/new", 8);
	EXPECT_NE(BINARY_UNKNOWN, number);
	EXPECT_STREQ("/new", binaries_get(self->binaries, number)->path);
}

TEST_F(binaries, a_binary_with_a_reference_keeps_its_file_open)
{
	static const bool none[BINARIES_MAX];
	unsigned int number = add_file(self, "/x", 7);
	struct binary *binary = binaries_get(self->binaries, number);
	uint64_t serial = binary->serial;
	int fd = binary->file.fd;

	binary_ref(binary);
	binaries_evict(self->binaries, none);
	EXPECT_LE(0, fcntl(fd, F_GETFD));
	EXPECT_STREQ("/x", binary->path);
	/* Its number is used again, its serial number is not. */
	EXPECT_EQ(number, add_file(self, "/y", 8));
	EXPECT_NE(serial, binaries_get(self->binaries, number)->serial);
	binary_unref(binary);
	EXPECT_EQ(-1, fcntl(fd, F_GETFD));
}

/* --- files that are closed -------------------------------------------------------------- */

/* A file at @path, which is given a name, and its number. */
static unsigned int add_path(struct _test_data_binaries *self, char *path, unsigned char id)
{
	struct binary_file file = { .build_id_length = id ? HAB_BUILD_ID_LEN : 0 };
	struct stat status;

	memset(file.build_id, id, sizeof(file.build_id));
	file.fd = *path == '/' ? open(path, O_RDONLY) : -1;
	if (file.fd < 0) {
		strcpy(path, "/tmp/binaries_test.XXXXXX");
		file.fd = mkstemp(path);
	}
	if (file.fd < 0 || fstat(file.fd, &status))
		return BINARY_UNKNOWN;
	file.device = status.st_dev;
	file.inode = status.st_ino;
	file.size = status.st_size;
	file.changed = status.st_mtim;
	return binaries_add_file(self->binaries, &file, path);
}

static void close_all(struct _test_data_binaries *self)
{
	static const bool none[BINARIES_MAX];

	binaries_close_unmapped(self->binaries, none);
	binaries_close_unmapped(self->binaries, none);
}

TEST_F(binaries, a_file_that_no_process_has_mapped_is_closed_and_stays_the_same_binary)
{
	static bool mapped[BINARIES_MAX];
	char path[64] = "";
	unsigned int number = add_path(self, path, 0);
	struct binary *binary = binaries_get(self->binaries, number);
	uint64_t serial = binary->serial;
	int fd = binary->file.fd, again;

	ASSERT_NE(BINARY_UNKNOWN, number);
	mapped[number] = true;
	binaries_close_unmapped(self->binaries, mapped);
	binaries_close_unmapped(self->binaries, mapped);
	EXPECT_LE(0, fcntl(fd, F_GETFD));
	close_all(self);
	EXPECT_EQ(-1, fcntl(fd, F_GETFD));
	binary = binaries_get(self->binaries, number);
	EXPECT_EQ(serial, binary->serial);
	EXPECT_STREQ(path, binary->path);
	again = binary_open(binary);
	EXPECT_LE(0, again);
	close(again);
	EXPECT_EQ(number, add_path(self, path, 0));
	EXPECT_LE(0, binaries_get(self->binaries, number)->file.fd);
	EXPECT_EQ(serial, binaries_get(self->binaries, number)->serial);
	unlink(path);
}

TEST_F(binaries, another_file_at_the_path_of_a_closed_one_is_not_opened)
{
	char path[64] = "", other[64] = "";
	unsigned int number = add_path(self, path, 7);

	close_all(self);
	EXPECT_NE(number, add_path(self, other, 8));
	ASSERT_EQ(0, rename(other, path));
	EXPECT_EQ(-1, binary_open(binaries_get(self->binaries, number)));
	unlink(path);
}

TEST_F(binaries, a_file_without_a_path_stays_open)
{
	char path[64] = "";
	unsigned int number = add_path(self, path, 7);

	unlink(path);
	close_all(self);
	EXPECT_LE(0, binaries_get(self->binaries, number)->file.fd);
}

TEST_F(binaries, a_file_stays_open_for_those_that_have_a_reference)
{
	char path[64] = "";
	struct binary *binary = binaries_get(self->binaries, add_path(self, path, 7));
	int fd = binary->file.fd;

	binary_ref(binary);
	close_all(self);
	EXPECT_LE(0, fcntl(fd, F_GETFD));
	EXPECT_STREQ(path, binary->path);
	binary_unref(binary);
	EXPECT_EQ(-1, fcntl(fd, F_GETFD));
	unlink(path);
}

TEST_HARNESS_MAIN
