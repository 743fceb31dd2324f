// SPDX-License-Identifier: GPL-2.0-only
/*
 * Tests where the maps of a process come from: from itself, or else from /proc. And which files are
 * opened for them: no device, no pipe, no file that another one has replaced.
 */
#include "kselftest_harness.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "wire/channel.h"
#include "daemon/collect/maps_reader.h"
#include "daemon/collect/process_maps.h"
#include "selftests/fuzz/elf_file.h"

#define MS	1000
#define ADDRESS 0x5a0000000000ull /* in the texts that tests make up; no process has it mapped */
#define PAUSE	(150 * MS)	  /* longer than the one between two readings */

FIXTURE(processes)
{
	struct binaries *binaries;
	struct processes *processes;
	uid_t user;
	uint8_t elf[ELF_ROOM];
	char folder[40];
	char file[64];	   /* an ELF file */
	char pipe[64];	   /* a FIFO's path */
	char perf_map[64]; /* of this process */
	pid_t children[4];
	unsigned int nr_children;
};

FIXTURE_SETUP(processes)
{
	size_t size = elf_file_make(self->elf);
	int fd;

	self->binaries = binaries_new();
	self->processes = processes_new(self->binaries);
	self->user = getuid();
	self->nr_children = 0;
	strcpy(self->folder, "/tmp/processes_test.XXXXXX");
	ASSERT_NE(NULL, mkdtemp(self->folder));
	snprintf(self->file, sizeof(self->file), "%s/file", self->folder);
	snprintf(self->pipe, sizeof(self->pipe), "%s/pipe", self->folder);
	snprintf(self->perf_map, sizeof(self->perf_map), "/tmp/perf-%d.map", getpid());
	fd = open(self->file, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	ASSERT_LE(0, fd);
	ASSERT_EQ(size, write(fd, self->elf, size));
	close(fd);
}

FIXTURE_TEARDOWN(processes)
{
	while (self->nr_children)
		kill(self->children[--self->nr_children], SIGKILL);
	unlink(self->file);
	unlink(self->pipe);
	unlink(self->perf_map);
	rmdir(self->folder);
	processes_free(self->processes);
	binaries_free(self->binaries);
}

/* A process that does @act and then waits. Returns once it has. */
static pid_t start(struct _test_data_processes *self,
		   void (*act)(const struct _test_data_processes *self))
{
	int ends[2];
	pid_t child;
	char byte;

	if (pipe(ends))
		abort();
	child = fork();
	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (act)
			act(self);
		if (write(ends[1], "", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	close(ends[1]);
	if (read(ends[0], &byte, 1) != 1)
		abort();
	close(ends[0]);
	self->children[self->nr_children++] = child;
	return child;
}

static void end(pid_t child)
{
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}

/* What a stack of one address in that process is translated to. */
static uint64_t translate(struct _test_data_processes *self, pid_t pid, uint64_t address)
{
	struct hab_frame frame = { .status = HAB_FRAME_ADDRESS, .offset = address };
	struct process *process =
		processes_see(self->processes, (uint32_t)pid, self->user, false);
	uint64_t translated;

	processes_translate(self->processes, process, &frame, 1, &translated);
	return translated;
}

/* The name of the binary at that address. */
static const char *name_at(struct _test_data_processes *self, pid_t pid, uint64_t address)
{
	return binaries_get(self->binaries, FRAME_BINARY(translate(self, pid, address)))->name;
}

/* This program is every child's, too. */
static uint64_t own_address(void)
{
	return (uintptr_t)translate;
}

static uint64_t readings(const struct _test_data_processes *self)
{
	return processes_counts(self->processes).readings;
}

static void put_line(char *line, uint64_t at, uint64_t end, const char *rights, const char *path)
{
	struct stat status = { 0 };

	if (*path)
		stat(path, &status);
	sprintf(line, "%llx-%llx %s 00000000 00:01 %ju %s\n", ADDRESS + at, ADDRESS + end, rights,
		(uintmax_t)status.st_ino, path);
}

/* Sends a line of maps: @path at ADDRESS plus @at. */
static void say_mapped(struct _test_data_processes *self, pid_t pid, uint64_t at, const char *path,
		       bool adds)
{
	char line[200];

	put_line(line, at, at + 0x1000, "r-xp", path);
	processes_add_text(self->processes, (uint32_t)pid, self->user, line, strlen(line), adds);
}

/* --- /proc ---------------------------------------------------------------------------- */

TEST_F(processes, maps_are_read_at_the_first_sight_of_a_process)
{
	pid_t child = start(self, NULL);

	processes_see(self->processes, (uint32_t)child, self->user, false);
	end(child);
	EXPECT_STREQ("processes_test", name_at(self, child, own_address()));
	EXPECT_EQ(1, readings(self));
}

TEST_F(processes, the_stack_of_an_ended_process_has_only_addresses)
{
	pid_t child = start(self, NULL);

	end(child);
	EXPECT_EQ(FRAME(BINARY_UNKNOWN, own_address()), translate(self, child, own_address()));
	EXPECT_EQ(1, processes_counts(self->processes).unreadable);
}

static void map_file(const struct _test_data_processes *self)
{
	int fd = open(self->file, O_RDONLY | O_CLOEXEC);

	if (mmap((void *)ADDRESS, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, fd, 0) ==
	    MAP_FAILED)
		_exit(1);
	close(fd);
}

TEST_F(processes, maps_are_read_again_for_an_address_that_they_do_not_cover)
{
	EXPECT_EQ(FRAME(BINARY_UNKNOWN, ADDRESS), translate(self, getpid(), ADDRESS));
	map_file(self);
	usleep(PAUSE);
	EXPECT_STREQ("file", name_at(self, getpid(), ADDRESS));
	EXPECT_EQ(2, readings(self));
	munmap((void *)ADDRESS, 4096);
}

static uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

TEST_F(processes, an_address_that_is_never_covered_has_maps_read_less_and_less_often)
{
	unsigned int i, most = 2;
	uint64_t began = now_ms(), pauses;

	for (i = 0; i < 1500; i++) {
		translate(self, getpid(), ADDRESS);
		usleep(MS);
	}
	/* After 100 ms, 200, 400, 800 and so on. */
	for (pauses = 100; pauses < now_ms() - began; pauses += pauses + 100)
		most++;
	EXPECT_LE(3, readings(self));
	EXPECT_GE(most, readings(self));
}

TEST_F(processes, maps_are_read_again_for_a_new_heap_soon)
{
	translate(self, getpid(), own_address());
	map_file(self);
	processes_see(self->processes, (uint32_t)getpid(), self->user, true);
	usleep(PAUSE);
	processes_tidy(self->processes);
	EXPECT_EQ(2, readings(self));
	munmap((void *)ADDRESS, 4096);
	EXPECT_STREQ("file", name_at(self, getpid(), ADDRESS));
}

TEST_F(processes, a_process_that_is_announced_all_the_time_is_read_a_few_times_a_second)
{
	uint64_t began = now_ms(), seconds;
	unsigned int i;

	for (i = 0; i < 3000; i++) {
		processes_see(self->processes, (uint32_t)getpid(), self->user, true);
		usleep(MS);
	}
	seconds = (now_ms() - began) / 1000 + 1;
	EXPECT_LT(1, readings(self));
	EXPECT_GE(1 + 4 * seconds, readings(self));
}

/* --- texts ---------------------------------------------------------------------------- */

TEST_F(processes, what_a_process_says_are_its_maps_at_once)
{
	say_mapped(self, getpid(), 0, self->file, false);
	EXPECT_STREQ("file", name_at(self, getpid(), ADDRESS));
	EXPECT_EQ(0, readings(self));
}

/* Sends a build id before: the file's own but for its last byte, which is @last. */
static void say_mapped_with_id(struct _test_data_processes *self, const char *path, uint8_t last)
{
	char text[300] = HAB_MAPS_BUILD_ID;
	unsigned int i;

	for (i = 1; i < HAB_BUILD_ID_LEN; i++)
		sprintf(text + strlen(text), "%02x", i);
	sprintf(text + strlen(text), "%02x\n", last);
	put_line(text + strlen(text), 0, 0x1000, "r-xp", path);
	processes_add_text(self->processes, (uint32_t)getpid(), self->user, text, strlen(text),
			   false);
}

static const struct binary_file *file_at(struct _test_data_processes *self, uint64_t address)
{
	uint64_t frame = translate(self, getpid(), address);

	return &binaries_get(self->binaries, FRAME_BINARY(frame))->file;
}

TEST_F(processes, a_file_with_the_build_id_that_its_process_says_is_opened)
{
	say_mapped_with_id(self, self->file, HAB_BUILD_ID_LEN);
	EXPECT_LE(0, file_at(self, ADDRESS)->fd);
	EXPECT_STREQ("file", name_at(self, getpid(), ADDRESS));
}

TEST_F(processes, a_file_with_another_build_id_is_not_read)
{
	say_mapped_with_id(self, self->file, 99);
	EXPECT_GT(0, file_at(self, ADDRESS)->fd);
	EXPECT_EQ(99, file_at(self, ADDRESS)->build_id[HAB_BUILD_ID_LEN - 1]);
	EXPECT_STREQ("file", name_at(self, getpid(), ADDRESS));
}

TEST_F(processes, a_file_that_cannot_be_opened_has_the_build_id_that_its_process_says)
{
	ASSERT_EQ(0, mkfifo(self->pipe, 0600));
	say_mapped_with_id(self, self->pipe, 99);
	EXPECT_EQ(HAB_BUILD_ID_LEN, file_at(self, ADDRESS)->build_id_length);
	EXPECT_EQ(99, file_at(self, ADDRESS)->build_id[HAB_BUILD_ID_LEN - 1]);
	EXPECT_STREQ("pipe", name_at(self, getpid(), ADDRESS));
}

TEST_F(processes, a_text_adds_to_those_before)
{
	say_mapped(self, getpid(), 0x1000, self->file, false);
	say_mapped(self, getpid(), 0, "", true);
	say_mapped(self, getpid(), 0x2000, "", true);
	EXPECT_STREQ("[jit]", name_at(self, getpid(), ADDRESS));
	EXPECT_STREQ("file", name_at(self, getpid(), ADDRESS + 0x1000));
	EXPECT_STREQ("[jit]", name_at(self, getpid(), ADDRESS + 0x2000));
	EXPECT_EQ(0, readings(self));
}

static void say_line(struct _test_data_processes *self, uint64_t at, uint64_t end,
		     const char *rights)
{
	char line[200];

	put_line(line, at, end, rights, "");
	processes_add_text(self->processes, (uint32_t)getpid(), self->user, line, strlen(line),
			   true);
}

TEST_F(processes, what_is_mapped_later_stands_in_place_of_what_it_overlaps)
{
	say_mapped(self, getpid(), 0, self->file, false);
	say_mapped(self, getpid(), 0x1000, self->file, true);
	say_line(self, 0x800, 0x1800, "r-xp");
	EXPECT_STREQ("[jit]", name_at(self, getpid(), ADDRESS + 0x1000));
	usleep(PAUSE);
	EXPECT_EQ(FRAME(BINARY_UNKNOWN, ADDRESS), translate(self, getpid(), ADDRESS));
	EXPECT_EQ(FRAME(BINARY_UNKNOWN, ADDRESS + 0x1800),
		  translate(self, getpid(), ADDRESS + 0x1800));
}

TEST_F(processes, what_is_unmapped_is_known_no_more)
{
	say_mapped(self, getpid(), 0, self->file, false);
	say_mapped(self, getpid(), 0x1000, self->file, true);
	say_line(self, 0, 0x1000, "---p");
	EXPECT_EQ(FRAME(BINARY_UNKNOWN, ADDRESS), translate(self, getpid(), ADDRESS));
	EXPECT_STREQ("file", name_at(self, getpid(), ADDRESS + 0x1000));
}

TEST_F(processes, a_line_without_a_folder_has_that_of_the_line_before)
{
	char text[400], *second;

	put_line(text, 0, 0x1000, "r-xp", self->file);
	second = text + strlen(text);
	put_line(second, 0x1000, 0x2000, "r-xp", self->file);
	strcpy(strchr(second, '/'), HAB_MAPS_SAME_FOLDER "file\n");
	processes_add_text(self->processes, (uint32_t)getpid(), self->user, text, strlen(text),
			   false);
	EXPECT_EQ(translate(self, getpid(), ADDRESS), translate(self, getpid(), ADDRESS + 0x1000));
	EXPECT_LE(0, file_at(self, ADDRESS + 0x1000)->fd);
}

/* Those of /proc are of a later time than samples that are still in the ring. */
TEST_F(processes, what_a_process_has_said_stays_when_its_maps_are_read)
{
	map_file(self);
	say_mapped(self, getpid(), 0, "", false);
	usleep(PAUSE);
	EXPECT_STREQ("processes_test", name_at(self, getpid(), own_address()));
	EXPECT_STREQ("[jit]", name_at(self, getpid(), ADDRESS));
	munmap((void *)ADDRESS, 4096);
}

TEST_F(processes, an_address_in_no_mapping_is_found_in_a_text_that_comes_later)
{
	uint64_t frame;

	say_mapped(self, getpid(), 0x1000, "", false);
	frame = translate(self, getpid(), ADDRESS);
	EXPECT_EQ(FRAME(BINARY_UNKNOWN, ADDRESS), frame);
	EXPECT_TRUE(processes_add_text(self->processes, (uint32_t)getpid(), self->user, "", 0,
				       true));
	EXPECT_FALSE(processes_add_text(self->processes, (uint32_t)getpid(), self->user, "", 0,
					true));
	say_mapped(self, getpid(), 0, self->file, true);
	frame = processes_translate_again(self->processes, (uint32_t)getpid(), frame);
	EXPECT_EQ(translate(self, getpid(), ADDRESS), frame);
	EXPECT_STREQ("file", binaries_get(self->binaries, FRAME_BINARY(frame))->name);
}

TEST_F(processes, maps_are_read_for_an_address_that_the_text_does_not_cover)
{
	say_mapped(self, getpid(), 0, self->file, false);
	usleep(PAUSE);
	EXPECT_STREQ("file", name_at(self, getpid(), ADDRESS));
	EXPECT_EQ(0, readings(self));
	EXPECT_STREQ("processes_test", name_at(self, getpid(), own_address()));
	EXPECT_EQ(1, readings(self));
}

TEST_F(processes, the_text_of_a_process_that_has_ended_counts)
{
	pid_t child = start(self, NULL);

	end(child);
	say_mapped(self, child, 0, self->file, false);
	processes_end(self->processes, (uint32_t)child);
	EXPECT_STREQ("file", name_at(self, child, ADDRESS));
	EXPECT_EQ(0, processes_counts(self->processes).unreadable);
}

/* What an owner's programs say takes bounded memory, and what is left out is counted. */
TEST_F(processes, mappings_beyond_the_limit_of_all_are_counted)
{
	unsigned int i, line, pid;
	size_t length;
	char *text;
	FILE *out;

	for (pid = 1; pid <= (1 << 17) / 4096 + 2; pid++) {
		out = open_memstream(&text, &length);
		for (line = 0, i = 0x1000; line < 4096; line++, i += 0x2000)
			fprintf(out, "%x-%x r-xp 00000000 00:00 0 \n", i, i + 0x1000);
		fclose(out);
		processes_add_text(self->processes, pid, 0, text, length, false);
		free(text);
	}
	EXPECT_EQ(1 << 17, limits_own.used[LIMITED_MAPPINGS]);
	EXPECT_EQ(2, limits_own.refused[LIMITED_MAPPINGS]);
	processes_free(self->processes);
	self->processes = NULL;
	EXPECT_EQ(0, limits_own.used[LIMITED_MAPPINGS]);
}

/* Its number may be another process's by now. */
TEST_F(processes, the_maps_of_a_process_that_has_ended_are_not_read)
{
	say_mapped(self, getpid(), 0, self->file, false);
	processes_end(self->processes, (uint32_t)getpid());
	usleep(PAUSE);
	EXPECT_EQ(FRAME(BINARY_UNKNOWN, own_address()), translate(self, getpid(), own_address()));
	EXPECT_EQ(0, readings(self));
}

/* Of two thousand lines the channel's is one of the last. */
static void map_much_and_a_channel(int ready)
{
	int fd = memfd_create(HAB_CHANNEL_FILE, MFD_CLOEXEC), i;

	mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
	for (i = 0; i < 2000; i++)
		mmap(NULL, 4096, i % 2 ? PROT_READ : PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	(void)!write(ready, "", 1);
	pause();
}

/* At a random moment of the time that a reading takes. */
static void end_soon(pid_t pid)
{
	usleep((useconds_t)rand() % 6000);
	kill(pid, SIGKILL);
	_exit(0);
}

TEST(a_process_that_ends_while_its_maps_are_read_has_not_lost_its_channel)
{
	int ready[2], fd, i, found = 0, ended = 0;
	pid_t pid, other;
	bool has_memory;
	char byte;

	ASSERT_EQ(0, pipe(ready));
	for (i = 0; i < 100; i++) {
		pid = fork();
		if (!pid)
			map_much_and_a_channel(ready[1]);
		ASSERT_EQ(1, read(ready[0], &byte, 1));
		rand();
		other = fork();
		if (!other)
			end_soon(pid);
		has_memory = maps_open_memory((uint32_t)pid, &fd);
		EXPECT_TRUE(!has_memory || fd >= 0);
		found += fd >= 0;
		ended += !has_memory;
		if (fd >= 0)
			close(fd);
		waitpid(pid, NULL, 0);
		waitpid(other, NULL, 0);
	}
	TH_LOG("found %d times, ended before %d times", found, ended);
}

TEST_F(processes, a_process_that_cannot_be_read_keeps_the_maps_of_its_text)
{
	pid_t child = start(self, NULL);

	end(child);
	say_mapped(self, child, 0, self->file, false);
	usleep(PAUSE);
	EXPECT_EQ(FRAME(BINARY_UNKNOWN, own_address()), translate(self, child, own_address()));
	EXPECT_EQ(1, readings(self));
	EXPECT_STREQ("file", name_at(self, child, ADDRESS));
}

/* --- files ---------------------------------------------------------------------------- */

/* Maps a file that no other process can open while the lease is held. */
static void hold_lease(const struct _test_data_processes *self)
{
	int fd = open(self->file, O_RDONLY | O_CLOEXEC);

	/* The kernel asks for the lease by this signal, which would end the process. */
	signal(SIGIO, SIG_IGN);
	if (fd < 0 || mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0) == MAP_FAILED ||
	    fcntl(fd, F_SETLEASE, F_WRLCK))
		_exit(1);
}

/* An open that waits ends when the kernel has taken the lease, which is one to read then. */
static bool has_lost_lease(pid_t holder)
{
	char line[200], state[16], kind[16];
	FILE *locks = fopen("/proc/locks", "re");
	bool lost = true;
	pid_t pid;

	while (locks && fgets(line, sizeof(line), locks))
		if (sscanf(line, "%*s LEASE %15s %15s %d", state, kind, &pid) == 3 && pid == holder)
			lost = !strcmp(state, "ACTIVE") && !strcmp(kind, "READ");
	if (locks)
		fclose(locks);
	return lost;
}

TEST_F(processes, a_lease_on_a_mapped_file_delays_nothing)
{
	pid_t child = start(self, hold_lease);

	EXPECT_STREQ("processes_test", name_at(self, child, own_address()));
	EXPECT_FALSE(has_lost_lease(child));
}

TEST_F(processes, a_file_that_has_replaced_the_mapped_one_is_not_opened)
{
	struct stat status;
	char line[200];

	ASSERT_EQ(0, stat(self->file, &status));
	snprintf(line, sizeof(line), "%llx-%llx r-xp 00000000 00:01 %ju %s\n", ADDRESS,
		 ADDRESS + 0x1000, (uintmax_t)status.st_ino + 1, self->file);
	processes_add_text(self->processes, (uint32_t)getpid(), self->user, line, strlen(line),
			   false);
	EXPECT_EQ(-1, binaries_get(self->binaries,
				   FRAME_BINARY(translate(self, getpid(), ADDRESS)))->file.fd);
}

/* A child opens a FIFO for writing, which waits until somebody opens it for reading. */
static int wait_for_reader(struct _test_data_processes *self, const char *path)
{
	int ends[2];
	pid_t child;
	char byte;

	if (mkfifo(path, 0644) || pipe(ends))
		abort();
	child = fork();
	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (write(ends[1], "", 1) != 1 || open(path, O_WRONLY) < 0 ||
		    write(ends[1], "", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	self->children[self->nr_children++] = child;
	close(ends[1]);
	if (read(ends[0], &byte, 1) != 1)
		abort();
	/* It has to wait by then. */
	usleep(200 * MS);
	return ends[0];
}

/* True if it was opened by now. */
static bool was_opened(int fd)
{
	struct pollfd ready = { .fd = fd, .events = POLLIN };

	return poll(&ready, 1, 200) > 0;
}

TEST_F(processes, a_pipe_in_a_text_is_not_opened)
{
	int writer = wait_for_reader(self, self->pipe);

	say_mapped(self, getpid(), 0, self->pipe, false);
	EXPECT_FALSE(was_opened(writer));
}

TEST_F(processes, a_device_in_a_text_is_not_opened)
{
	struct pollfd terminal = { .fd = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC) };
	int device;

	ASSERT_LE(0, terminal.fd);
	ASSERT_EQ(0, grantpt(terminal.fd));
	ASSERT_EQ(0, unlockpt(terminal.fd));
	say_mapped(self, getpid(), 0, ptsname(terminal.fd), false);
	poll(&terminal, 1, 0);
	EXPECT_EQ(0, terminal.revents & POLLHUP);
	/* That is what an open leaves behind. */
	device = open(ptsname(terminal.fd), O_RDONLY | O_NOCTTY);
	close(device);
	poll(&terminal, 1, 0);
	EXPECT_EQ(POLLHUP, terminal.revents & POLLHUP);
}

/* --- perf maps ------------------------------------------------------------------------ */

static void write_perf_map(const char *path)
{
	FILE *file = fopen(path, "we");

	if (!file || fprintf(file, "%llx 100 made\n", ADDRESS) < 0 || fclose(file))
		abort();
}

TEST_F(processes, code_without_a_file_is_named_by_the_perf_map)
{
	write_perf_map(self->perf_map);
	say_mapped(self, getpid(), 0, "", false);
	EXPECT_STREQ(self->perf_map + strlen("/tmp/"), name_at(self, getpid(), ADDRESS));
	/* Its functions are found by their addresses. */
	EXPECT_EQ(ADDRESS, FRAME_OFFSET(translate(self, getpid(), ADDRESS)));
}

TEST_F(processes, a_perf_map_is_no_link)
{
	write_perf_map(self->file);
	ASSERT_EQ(0, symlink(self->file, self->perf_map));
	say_mapped(self, getpid(), 0, "", false);
	EXPECT_STREQ("[jit]", name_at(self, getpid(), ADDRESS));
}

TEST_F(processes, a_perf_map_is_of_the_processs_own_user)
{
	if (getuid())
		SKIP(return, "only root can give files away");
	write_perf_map(self->perf_map);
	ASSERT_EQ(0, chown(self->perf_map, 65533, 65533));
	say_mapped(self, getpid(), 0, "", false);
	EXPECT_STREQ("[jit]", name_at(self, getpid(), ADDRESS));
}

TEST_F(processes, a_pipe_in_the_place_of_a_perf_map_is_not_opened)
{
	int writer = wait_for_reader(self, self->perf_map);

	say_mapped(self, getpid(), 0, "", false);
	EXPECT_FALSE(was_opened(writer));
}

/* --- names of functions --------------------------------------------------------------- */

static void send_name(struct _test_data_processes *self, uint32_t id, char name)
{
	struct {
		struct hab_record_name record;
		char text[8];
	} sent = { .record = { .id = id, .function_length = 1 }, .text = { name } };

	processes_add_name(self->processes, 1, self->user, &sent.record, sizeof(sent));
}

/* The first letter of the function that the process has sent with the id. */
static char name_of(struct _test_data_processes *self, uint32_t id)
{
	const struct hab_frame frame = { .status = HAB_FRAME_NAME, .offset = id };
	uint64_t translated;

	processes_translate(self->processes,
			    processes_see(self->processes, 1, self->user, false), &frame, 1,
			    &translated);
	if (FRAME_BINARY(translated) != BINARY_NAMES)
		return 0;
	return *names_get(binaries_names(self->binaries), (uint32_t)FRAME_OFFSET(translated))
			.function;
}

TEST_F(processes, each_id_has_the_name_that_was_sent_last)
{
	static const uint32_t ids[] = { 700, 3, 32767, 0, 701, 4 };
	unsigned int i;

	for (i = 0; i < 6; i++)
		send_name(self, ids[i], (char)('a' + i));
	send_name(self, 3, 'x');
	for (i = 0; i < 6; i++)
		EXPECT_EQ(i == 1 ? 'x' : 'a' + (int)i, name_of(self, ids[i]));
	EXPECT_FALSE(processes_take_lack(self->processes, 1));
	EXPECT_EQ('[', name_of(self, 5));
	EXPECT_TRUE(processes_take_lack(self->processes, 1));
	EXPECT_FALSE(processes_take_lack(self->processes, 1));
}

TEST_F(processes, names_beyond_the_limit_are_refused_and_counted)
{
	uint64_t refused = limits_own.refused[LIMITED_SENT_NAMES];

	limits_add(LIMITED_SENT_NAMES, limits[LIMITED_SENT_NAMES].most);
	send_name(self, 7, 'a');
	EXPECT_EQ('[', name_of(self, 7));
	EXPECT_EQ(refused + 1, limits_own.refused[LIMITED_SENT_NAMES]);
	limits_give_back(LIMITED_SENT_NAMES, limits[LIMITED_SENT_NAMES].most);
	send_name(self, 7, 'a');
	EXPECT_EQ('a', name_of(self, 7));
}

TEST_HARNESS_MAIN
