// SPDX-License-Identifier: GPL-2.0-only
/*
 * Tests the table of binaries against files of another user: wrong build ids, files that fill
 * the table, and files that cannot be opened at once. Needs root, to make files of another user.
 */
#include "kselftest_harness.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/symbols/processes.h"
#include "selftests/fuzz/elf_file.h"

#define OTHER_USER 65533

FIXTURE(binaries)
{
	struct binaries *binaries;
	uint8_t file[ELF_ROOM];
	size_t size;
};

FIXTURE_SETUP(binaries)
{
	if (getuid())
		SKIP(return, "only root can make files of another user");
	self->binaries = binaries_new();
	self->size = elf_file_make(self->file);
}

FIXTURE_TEARDOWN(binaries)
{
	binaries_free(self->binaries);
}

/* A file with the same build id each time. */
static int make_file(const struct _test_data_binaries *self, uid_t owner, mode_t mode)
{
	int fd = memfd_create("binaries_test", MFD_CLOEXEC);

	if (fd < 0 || write(fd, self->file, self->size) != (ssize_t)self->size ||
	    fchmod(fd, mode) || fchown(fd, owner, owner))
		return -1;
	return fd;
}

static const uint8_t *id_of(struct _test_data_binaries *self, unsigned int number)
{
	return binaries_get(self->binaries, number)->build_id;
}

TEST_F(binaries, two_files_of_root_with_one_build_id_are_one_binary)
{
	unsigned int first = binaries_add_file(self->binaries, make_file(self, 0, 0755), "/a");

	EXPECT_NE(BINARY_UNKNOWN, first);
	EXPECT_EQ(first, binaries_add_file(self->binaries, make_file(self, 0, 0755), "/b"));
}

TEST_F(binaries, a_file_of_another_user_shares_no_build_id_with_a_file_of_root)
{
	unsigned int planted, real, writable;

	planted = binaries_add_file(self->binaries, make_file(self, OTHER_USER, 0755), "/planted");
	real = binaries_add_file(self->binaries, make_file(self, 0, 0755), "/real");
	writable = binaries_add_file(self->binaries, make_file(self, 0, 0777), "/writable");
	EXPECT_NE(planted, real);
	EXPECT_NE(writable, real);
	EXPECT_STREQ("/real", binaries_get(self->binaries, real)->path);
	/* A build id of the kernel's stack is that of root's file. */
	EXPECT_EQ(real, binaries_find_id(self->binaries, id_of(self, real)));
}

TEST_F(binaries, a_build_id_that_only_another_user_has_stays_unnamed)
{
	unsigned int planted =
		binaries_add_file(self->binaries, make_file(self, OTHER_USER, 0755), "/planted");
	unsigned int unnamed = binaries_find_id(self->binaries, id_of(self, planted));

	EXPECT_NE(planted, unnamed);
	EXPECT_EQ(-1, binaries_get(self->binaries, unnamed)->fd);
}

TEST_F(binaries, files_of_one_owner_cannot_fill_the_table)
{
	unsigned int i, number = 0, refused = 0;

	for (i = 0; i < BINARIES_MAX && !refused; i++) {
		number = binaries_add_file(self->binaries, make_file(self, OTHER_USER, 0755), "/x");
		refused += number == BINARY_UNKNOWN;
	}
	EXPECT_EQ(1, refused);
	EXPECT_EQ(1, binaries_refused(self->binaries));
	EXPECT_LT(binaries_count(self->binaries), BINARIES_MAX / 4);
	number = binaries_add_file(self->binaries, make_file(self, 0, 0755), "/libc.so.6");
	EXPECT_NE(BINARY_UNKNOWN, number);
	number = binaries_add_file(self->binaries, make_file(self, OTHER_USER - 1, 0755), "/y");
	EXPECT_NE(BINARY_UNKNOWN, number);
}

TEST_F(binaries, names_without_a_file_leave_room_for_files)
{
	char name[32];
	int i;

	for (i = 0; i < BINARIES_MAX; i++) {
		snprintf(name, sizeof(name), "/unreadable/%d", i);
		binaries_add_name(self->binaries, name);
	}
	EXPECT_NE(BINARY_UNKNOWN,
		  binaries_add_file(self->binaries, make_file(self, 0, 0755), "/libc.so.6"));
}

/* Maps a file that no other process can open while the lease is held. */
static void hold_lease(const struct _test_data_binaries *self, int ready)
{
	char path[] = "/tmp/binaries_test.XXXXXX";
	int fd;

	if (setgid(OTHER_USER) || setuid(OTHER_USER))
		_exit(1);
	/* Files below /proc/PID are root's after setuid(), unless the process can be dumped. */
	prctl(PR_SET_DUMPABLE, 1);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	fd = mkstemp(path);
	if (fd < 0 || write(fd, self->file, self->size) != (ssize_t)self->size || close(fd))
		_exit(1);
	fd = open(path, O_RDONLY);
	unlink(path);
	if (fd < 0 ||
	    mmap(NULL, self->size, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0) == MAP_FAILED ||
	    fcntl(fd, F_SETLEASE, F_WRLCK) || write(ready, "", 1) != 1)
		_exit(1);
	/* The kernel asks for the lease by this signal, which would end the process. */
	signal(SIGIO, SIG_IGN);
	for (;;)
		pause();
}

/* An open that waits for the lease takes 45 s. The limit here is 15 s, see patience.h. */
TEST_F_TIMEOUT(binaries, a_lease_on_a_mapped_file_delays_nothing, 5)
{
	struct processes *processes = processes_new(self->binaries);
	unsigned int before;
	int ends[2];
	char byte;
	pid_t child;

	ASSERT_EQ(0, pipe(ends));
	child = fork();
	if (!child)
		hold_lease(self, ends[1]);
	close(ends[1]);
	ASSERT_EQ(1, read(ends[0], &byte, 1));
	before = binaries_count(self->binaries);
	processes_see(processes, child, false, 1);
	EXPECT_EQ(0, processes_unreadable(processes));
	EXPECT_LT(before, binaries_count(self->binaries));
	kill(child, SIGKILL);
	processes_free(processes);
}

TEST_HARNESS_MAIN
