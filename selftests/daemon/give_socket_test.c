// SPDX-License-Identifier: GPL-2.0-only
/* Tests that a socket is given away, and nothing that another user has put in its place. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "daemon/shared/util.h"

#include "kselftest_harness.h"

FIXTURE(folder)
{
	char path[32];
	struct sockaddr_un socket;
	char other[64];
	int fd;
};

FIXTURE_SETUP(folder)
{
	mode_t mask;

	strcpy(self->path, "/tmp/give_socket.XXXXXX");
	ASSERT_TRUE(mkdtemp(self->path));
	self->socket.sun_family = AF_UNIX;
	snprintf(self->socket.sun_path, sizeof(self->socket.sun_path), "%s/socket", self->path);
	snprintf(self->other, sizeof(self->other), "%s/other", self->path);
	self->fd = socket(AF_UNIX, SOCK_STREAM, 0);
	mask = umask(0177);
	ASSERT_EQ(0, bind(self->fd, (struct sockaddr *)&self->socket, sizeof(self->socket)));
	close(open(self->other, O_CREAT | O_WRONLY, 0600));
	umask(mask);
}

FIXTURE_TEARDOWN(folder)
{
	close(self->fd);
	unlink(self->socket.sun_path);
	unlink(self->other);
	rmdir(self->path);
}

static unsigned int mode_of(const char *path)
{
	struct stat status;

	return lstat(path, &status) ? 0 : status.st_mode & 0777;
}

TEST_F(folder, members_of_the_group_may_connect)
{
	struct stat status;
	const gid_t group = geteuid() ? getegid() : 64001;

	ASSERT_TRUE(give_socket(self->socket.sun_path, (uid_t)-1, group));
	ASSERT_EQ(0, lstat(self->socket.sun_path, &status));
	EXPECT_EQ(group, status.st_gid);
	EXPECT_EQ(geteuid(), status.st_uid);
	EXPECT_EQ(0660, status.st_mode & 0777);
}

TEST_F(folder, another_user_has_it_alone)
{
	struct stat status;

	if (geteuid())
		SKIP(return, "only root may give a file to another user");
	ASSERT_TRUE(give_socket(self->socket.sun_path, 61001, (gid_t)-1));
	ASSERT_EQ(0, lstat(self->socket.sun_path, &status));
	EXPECT_EQ(61001, status.st_uid);
	EXPECT_EQ(0600, status.st_mode & 0777);
	/* It is another user's now. */
	EXPECT_FALSE(give_socket(self->socket.sun_path, 61002, (gid_t)-1));
}

TEST_F(folder, what_a_link_in_its_place_names_is_not_given)
{
	ASSERT_EQ(0, unlink(self->socket.sun_path));
	ASSERT_EQ(0, symlink(self->other, self->socket.sun_path));
	EXPECT_FALSE(give_socket(self->socket.sun_path, (uid_t)-1, getegid()));
	EXPECT_EQ(0600, mode_of(self->other));
}

TEST_F(folder, a_file_in_its_place_is_not_given)
{
	ASSERT_EQ(0, rename(self->other, self->socket.sun_path));
	EXPECT_FALSE(give_socket(self->socket.sun_path, (uid_t)-1, getegid()));
	EXPECT_EQ(EEXIST, errno);
	EXPECT_EQ(0600, mode_of(self->socket.sun_path));
}

TEST_F(folder, nothing_is_not_given)
{
	ASSERT_EQ(0, unlink(self->socket.sun_path));
	EXPECT_FALSE(give_socket(self->socket.sun_path, (uid_t)-1, getegid()));
}

TEST_HARNESS_MAIN
