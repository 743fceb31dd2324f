// SPDX-License-Identifier: GPL-2.0-only
/* Tests the processes that read users' files: what they may do, deadlines, and their ends. */
#include "kselftest_harness.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "daemon/symbols/worker.h"

#define SECOND_NS 1000000000ull

enum todo { OPEN, WRITE_FILE, READ_DESCRIPTOR, SOCKET_CALL, SLEEP, CRASH, SELF };

struct request {
	struct worker_head head;
	int todo;
	char path[64];
};

struct reply {
	struct worker_head head;
	int error; /* errno, or 0 */
	pid_t pid;
	char text[16];
};

static void work(int requests)
{
	struct request request;
	struct reply reply;
	struct worker_message in = { .data = &request }, out = { .data = &reply };
	int fd;

	for (;;) {
		in.size = sizeof(request);
		if (!worker_receive(requests, &in))
			return;
		memset(&reply, 0, sizeof(reply));
		reply.head.number = request.head.number;
		reply.pid = getpid();
		errno = 0;
		fd = -1;
		switch (request.todo) {
		case OPEN:
			fd = open(request.path, O_RDONLY | O_CLOEXEC);
			break;
		case WRITE_FILE:
			fd = open(request.path, O_WRONLY | O_CLOEXEC);
			break;
		case READ_DESCRIPTOR:
			fd = dup(in.files[0]);
			if (pread(fd, reply.text, sizeof(reply.text) - 1, 0) < 0)
				reply.error = errno;
			break;
		case SOCKET_CALL:
			fd = socket(AF_INET, SOCK_STREAM, 0);
			break;
		case SLEEP:
			for (;;)
				sched_yield();
		case CRASH:
			abort();
		case SELF:
			fd = 0;
			break;
		}
		reply.error = fd < 0 ? errno : reply.error;
		if (fd > 0)
			close(fd);
		worker_close_files(&in);
		out.size = sizeof(reply);
		if (!worker_send(requests, &out))
			return;
	}
}

static const cap_value_t capabilities[] = { CAP_DAC_READ_SEARCH };

static const struct worker_kind closed = { .name = "closed", .work = work, .memory = 1 << 28 };
static const struct worker_kind opens = { .name = "opens",
					  .work = work,
					  .capabilities = capabilities,
					  .nr_capabilities = 1,
					  .memory = 1 << 28,
					  .opens_files = true };

FIXTURE(worker)
{
	struct worker *worker;
	struct reply reply;
	pid_t pid;
};

static uint64_t after_ns(uint64_t nanoseconds)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * SECOND_NS + (uint64_t)now.tv_nsec + nanoseconds;
}

static enum worker_result request_fd(struct worker *worker, int todo, const char *path, int fd,
				     uint64_t nanoseconds, struct reply *reply)
{
	struct request request = { .todo = todo };
	struct worker_message out = { .data = &request, .size = sizeof(request) };
	struct worker_message in = { .data = reply, .size = sizeof(*reply) };
	enum worker_result result;

	snprintf(request.path, sizeof(request.path), "%s", path);
	if (fd >= 0)
		out.files[out.nr_files++] = fd;
	result = worker_request(worker, &out);
	if (result != WORKER_REPLIED)
		return result;
	return worker_reply(worker, &in, after_ns(nanoseconds));
}

static enum worker_result request(struct worker *worker, int todo, const char *path,
				  struct reply *reply)
{
	return request_fd(worker, todo, path, -1, 60 * SECOND_NS, reply);
}

/* A line of /proc/PID/status, without its name; "" if there is none. */
static const char *status_line(pid_t pid, const char *name)
{
	static char line[256];
	char path[64];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file)) {
		if (strncmp(line, name, strlen(name)) != 0)
			continue;
		fclose(file);
		line[strcspn(line, "\n")] = 0;
		return line + strlen(name) + 1;
	}
	if (file)
		fclose(file);
	return "";
}

/* The id of that process's parent: of the keeper. */
static pid_t parent_of(pid_t pid)
{
	return atoi(status_line(pid, "PPid:"));
}

FIXTURE_SETUP(worker)
{
	if (getuid())
		SKIP(return, "only root can give a process a user id of its own");
	signal(SIGPIPE, SIG_IGN);
	self->worker = worker_new(&closed);
	ASSERT_NE(NULL, self->worker);
	ASSERT_EQ(WORKER_REPLIED, request(self->worker, SELF, "", &self->reply));
	self->pid = self->reply.pid;
}

FIXTURE_TEARDOWN(worker)
{
	worker_free(self->worker);
}

static void expect_no_root(struct __test_metadata *_metadata, pid_t pid)
{
	unsigned int real, effective, saved, file;

	ASSERT_EQ(4, sscanf(status_line(pid, "Uid:"), "%u %u %u %u", &real, &effective, &saved,
			    &file));
	EXPECT_NE(0, real);
	EXPECT_EQ(real, effective);
	EXPECT_EQ(real, saved);
	EXPECT_EQ(real, file);
	EXPECT_STREQ(" ", status_line(pid, "Groups:"));
	EXPECT_STREQ("1", status_line(pid, "NoNewPrivs:"));
}

TEST_F(worker, worker_and_keeper_are_no_root_and_have_no_capabilities)
{
	expect_no_root(_metadata, self->pid);
	expect_no_root(_metadata, parent_of(self->pid));
	EXPECT_STREQ("0000000000000000", status_line(self->pid, "CapEff:"));
	EXPECT_STREQ("0000000000000000", status_line(self->pid, "CapPrm:"));
	EXPECT_STREQ("0000000000000000", status_line(parent_of(self->pid), "CapPrm:"));
}

TEST_F(worker, system_calls_are_filtered)
{
	EXPECT_STREQ("2", status_line(self->pid, "Seccomp:"));
	EXPECT_EQ(WORKER_REPLIED, request(self->worker, SOCKET_CALL, "", &self->reply));
	EXPECT_EQ(EPERM, self->reply.error);
}

TEST_F(worker, no_file_can_be_opened)
{
	EXPECT_EQ(WORKER_REPLIED, request(self->worker, OPEN, "/etc/shadow", &self->reply));
	EXPECT_EQ(EPERM, self->reply.error);
	EXPECT_EQ(WORKER_REPLIED, request(self->worker, OPEN, "/etc/passwd", &self->reply));
	EXPECT_EQ(EPERM, self->reply.error);
	EXPECT_EQ(WORKER_REPLIED,
		  request(self->worker, WRITE_FILE, "/proc/sys/kernel/core_pattern", &self->reply));
	EXPECT_EQ(EPERM, self->reply.error);
}

TEST_F(worker, a_descriptor_can_be_read)
{
	int fd = memfd_create("worker_test", MFD_CLOEXEC);

	ASSERT_EQ(5, write(fd, "hello", 5));
	EXPECT_EQ(WORKER_REPLIED,
		  request_fd(self->worker, READ_DESCRIPTOR, "", fd, 60 * SECOND_NS, &self->reply));
	EXPECT_EQ(0, self->reply.error);
	EXPECT_STREQ("hello", self->reply.text);
	close(fd);
}

TEST_F(worker, a_late_worker_is_replaced)
{
	EXPECT_EQ(WORKER_LATE,
		  request_fd(self->worker, SLEEP, "", -1, SECOND_NS / 100, &self->reply));
	EXPECT_EQ(WORKER_REPLIED, request(self->worker, SELF, "", &self->reply));
	EXPECT_NE(self->pid, self->reply.pid);
	EXPECT_EQ(-1, kill(self->pid, 0));
}

TEST_F(worker, a_worker_that_crashed_is_replaced_and_its_end_is_known)
{
	EXPECT_EQ(WORKER_ENDED, request(self->worker, CRASH, "", &self->reply));
	EXPECT_STREQ("Aborted", worker_end_text(self->worker));
	EXPECT_EQ(WORKER_REPLIED, request(self->worker, SELF, "", &self->reply));
}

TEST_F(worker, a_worker_that_ended_between_requests_costs_no_request)
{
	kill(self->pid, SIGKILL);
	while (!kill(self->pid, 0))
		usleep(1000);
	usleep(100000);
	EXPECT_EQ(WORKER_REPLIED, request(self->worker, SELF, "", &self->reply));
}

TEST_F(worker, without_the_keeper_requests_fail_at_once)
{
	kill(parent_of(self->pid), SIGKILL);
	while (!kill(self->pid, 0))
		usleep(1000);
	EXPECT_EQ(WORKER_MISSING, request(self->worker, SELF, "", &self->reply));
	EXPECT_EQ(WORKER_MISSING, request(self->worker, SELF, "", &self->reply));
}

TEST_F(worker, a_kind_that_opens_files_cannot_write_them)
{
	struct worker *worker = worker_new(&opens);

	ASSERT_NE(NULL, worker);
	/* A capability is kept: only root may read this one. */
	EXPECT_EQ(WORKER_REPLIED, request(worker, OPEN, "/etc/shadow", &self->reply));
	EXPECT_EQ(0, self->reply.error);
	expect_no_root(_metadata, self->reply.pid);
	EXPECT_EQ(WORKER_REPLIED, request(worker, WRITE_FILE, "/dev/null", &self->reply));
	EXPECT_EQ(EPERM, self->reply.error);
	EXPECT_EQ(WORKER_REPLIED, request(worker, SOCKET_CALL, "", &self->reply));
	EXPECT_EQ(EPERM, self->reply.error);
	worker_free(worker);
}

TEST_HARNESS_MAIN
