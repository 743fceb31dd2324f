// SPDX-License-Identifier: GPL-2.0-only
/* The anonymous memory of processes. The clock is the test's. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/shared/util.h"
#include "daemon/habd/state/rss.h"

#include "kselftest_harness.h"

#define SECOND_NS 1000000000ull
#define ROUND_NS  (16 * SECOND_NS)
#define MIB	  ((uint64_t)1 << 20)
#define USER	  61001u

/* Touches so many MiB for each byte that it reads, and answers. */
static void grow(int in, int out, uint64_t bytes)
{
	char *memory, byte;

	while (read(in, &byte, 1) == 1) {
		memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (memory == MAP_FAILED)
			_exit(1);
		memset(memory, 1, bytes);
		if (write(out, &byte, 1) != 1)
			_exit(1);
	}
	_exit(0);
}

FIXTURE(process)
{
	struct rss *rss;
	pid_t pid;
	int ask, answer;
	uint64_t now_ns;
};

FIXTURE_SETUP(process)
{
	int to[2], from[2];

	ASSERT_EQ(0, pipe(to));
	ASSERT_EQ(0, pipe(from));
	self->now_ns = 1000 * SECOND_NS;
	self->rss = rss_new();
	self->pid = fork();
	ASSERT_GE(self->pid, 0);
	if (!self->pid) {
		close(to[1]);
		grow(to[0], from[1], 32 * MIB);
	}
	close(to[0]);
	self->ask = to[1];
	self->answer = from[0];
}

FIXTURE_TEARDOWN(process)
{
	close(self->ask);
	kill(self->pid, SIGKILL);
	waitpid(self->pid, NULL, 0);
	rss_free(self->rss);
}

static bool grow_once(int ask, int answer)
{
	char byte = 0;

	return write(ask, &byte, 1) == 1 && read(answer, &byte, 1) == 1;
}

/* A whole round. */
static void read_all(struct rss *rss, uint64_t *now_ns)
{
	unsigned int i;

	*now_ns += ROUND_NS;
	for (i = 0; i < 1000; i++)
		rss_read(rss, *now_ns);
}

static bool find(const struct rss *rss, pid_t pid, uint64_t now_ns, struct rss_process *found)
{
	struct rss_process *list;
	unsigned int i, nr = rss_choose(rss, 100000, now_ns, &list);
	bool is_there = false;

	for (i = 0; i < nr; i++)
		if (list[i].pid == (uint32_t)pid) {
			*found = list[i];
			is_there = true;
		}
	free(list);
	return is_there;
}

TEST_F(process, it_has_its_anonymous_memory_as_the_kernel_counts_it)
{
	struct rss_process found;
	char text[64];
	uint64_t true_bytes;

	ASSERT_TRUE(grow_once(self->ask, self->answer));
	read_all(self->rss, &self->now_ns);
	ASSERT_TRUE(process_status((uint32_t)self->pid, "RssAnon", text, sizeof(text)));
	true_bytes = strtoull(text, NULL, 10) << 10;
	ASSERT_TRUE(find(self->rss, self->pid, self->now_ns, &found));
	EXPECT_GE(found.bytes, 32 * MIB);
	/* The kernel counts in batches. */
	EXPECT_LE(llabs((long long)(found.bytes - true_bytes)), MIB);
	EXPECT_EQ(0, found.change_ns);
	EXPECT_GE(rss_sum(self->rss), found.bytes);
}

TEST_F(process, what_it_shares_is_apart_and_it_is_found_as_its_users)
{
	struct rss_process found;
	char text[64];
	uint64_t shared;

	ASSERT_TRUE(grow_once(self->ask, self->answer));
	read_all(self->rss, &self->now_ns);
	ASSERT_TRUE(rss_find(self->rss, (uint32_t)self->pid, getuid(), self->now_ns, &found));
	ASSERT_TRUE(process_status((uint32_t)self->pid, "RssFile", text, sizeof(text)));
	shared = strtoull(text, NULL, 10) << 10;
	ASSERT_TRUE(process_status((uint32_t)self->pid, "RssShmem", text, sizeof(text)));
	shared += strtoull(text, NULL, 10) << 10;
	EXPECT_GT(found.shared_bytes, 0);
	EXPECT_LE(llabs((long long)(found.shared_bytes - shared)), MIB);
	EXPECT_GE(found.bytes, 32 * MIB);
	EXPECT_FALSE(
		rss_find(self->rss, (uint32_t)self->pid, getuid() + 1, self->now_ns, &found));
}

TEST_F(process, its_change_is_that_of_the_last_minute)
{
	struct rss_process found;
	unsigned int i;

	for (i = 0; i < 8; i++) {
		ASSERT_TRUE(grow_once(self->ask, self->answer));
		read_all(self->rss, &self->now_ns);
	}
	ASSERT_TRUE(find(self->rss, self->pid, self->now_ns, &found));
	EXPECT_EQ(4 * ROUND_NS, found.change_ns);
	EXPECT_LE(llabs((long long)found.change - (long long)(4 * 32 * MIB)), MIB);
}

/* It runs this program anew, with what it reads and answers as standard input and output. */
__attribute__((constructor)) static void grow_as_program(void)
{
	if (getenv("HAB_RSS_GROW"))
		grow(0, 1, 32 * MIB);
}

/* All that a process has it has got since it began: a new one is at the head. */
TEST_F(process, one_that_has_begun_since_the_round_before_has_grown_by_all_that_it_has)
{
	struct rss_process found;
	int to[2], from[2];
	pid_t pid;

	read_all(self->rss, &self->now_ns);
	ASSERT_EQ(0, pipe(to));
	ASSERT_EQ(0, pipe(from));
	pid = fork();
	ASSERT_GE(pid, 0);
	if (!pid) {
		dup2(to[0], 0);
		dup2(from[1], 1);
		close(to[1]);
		setenv("HAB_RSS_GROW", "1", 1);
		execl("/proc/self/exe", "grow", NULL);
		_exit(1);
	}
	close(to[0]);
	EXPECT_TRUE(grow_once(to[1], from[0]));
	read_all(self->rss, &self->now_ns);
	EXPECT_TRUE(find(self->rss, pid, self->now_ns, &found));
	EXPECT_EQ((int64_t)found.bytes, found.change);
	EXPECT_GE(found.change, (int64_t)(32 * MIB));
	EXPECT_EQ(ROUND_NS, found.change_ns);
	EXPECT_EQ(ROUND_NS, found.grows_ns);
	close(to[1]);
	close(from[0]);
	waitpid(pid, NULL, 0);
}

TEST_F(process, a_child_by_fork_has_not_grown_by_its_parents_memory)
{
	char *memory = mmap(NULL, 32 * MIB, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	struct rss_process found;
	pid_t pid;

	ASSERT_NE(MAP_FAILED, memory);
	read_all(self->rss, &self->now_ns);
	pid = fork();
	ASSERT_GE(pid, 0);
	if (!pid) {
		pause();
		_exit(0);
	}
	read_all(self->rss, &self->now_ns);
	EXPECT_TRUE(find(self->rss, pid, self->now_ns, &found));
	EXPECT_GE(found.bytes, 32 * MIB);
	EXPECT_EQ(0, found.change);
	EXPECT_EQ(0, found.grows_ns);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

TEST_F(process, it_grows_since_it_began_to_and_until_it_stops)
{
	struct rss_process found;
	unsigned int i;

	read_all(self->rss, &self->now_ns);
	for (i = 1; i <= 8; i++) {
		ASSERT_TRUE(grow_once(self->ask, self->answer));
		read_all(self->rss, &self->now_ns);
		ASSERT_TRUE(find(self->rss, self->pid, self->now_ns, &found));
		EXPECT_EQ(i * ROUND_NS, found.grows_ns);
	}
	for (i = 0; i < 4; i++)
		read_all(self->rss, &self->now_ns);
	ASSERT_TRUE(find(self->rss, self->pid, self->now_ns, &found));
	EXPECT_EQ(0, found.grows_ns);
	EXPECT_EQ(0, found.change);
}

TEST_F(process, one_that_has_ended_is_forgotten)
{
	struct rss_process found;

	read_all(self->rss, &self->now_ns);
	ASSERT_TRUE(find(self->rss, self->pid, self->now_ns, &found));
	kill(self->pid, SIGKILL);
	waitpid(self->pid, NULL, 0);
	read_all(self->rss, &self->now_ns);
	EXPECT_FALSE(find(self->rss, self->pid, self->now_ns, &found));
}

TEST_F(process, what_grows_comes_first)
{
	struct rss_process *list;

	read_all(self->rss, &self->now_ns);
	ASSERT_TRUE(grow_once(self->ask, self->answer));
	ASSERT_TRUE(grow_once(self->ask, self->answer));
	read_all(self->rss, &self->now_ns);
	ASSERT_EQ(1, rss_choose(self->rss, 1, self->now_ns, &list));
	EXPECT_EQ(self->pid, list[0].pid);
	free(list);
}

/* A process of that user, with so many bytes. It tells of itself when it has them. */
static pid_t start_holder(uid_t user, size_t bytes, int out)
{
	pid_t pid = fork();

	if (pid)
		return pid;
	if (setuid(user))
		_exit(1);
	memset(malloc(bytes), 1, bytes);
	if (write(out, "", 1) != 1)
		_exit(1);
	pause();
	_exit(0);
}

/* 20 of one user are larger than the one of another. */
TEST_F(process, a_user_with_many_leaves_room_for_others)
{
	unsigned int i, nr, found = 0;
	struct rss_process *list;
	pid_t pids[21];
	char byte;
	int fds[2];

	if (geteuid())
		SKIP(return, "needs root");
	ASSERT_EQ(0, pipe(fds));
	for (i = 0; i < ARRAY_SIZE(pids); i++)
		pids[i] = start_holder(i ? USER : USER + 1, i ? 40 * MIB : 30 * MIB, fds[1]);
	for (i = 0; i < ARRAY_SIZE(pids); i++)
		ASSERT_EQ(1, read(fds[0], &byte, 1));
	read_all(self->rss, &self->now_ns);
	nr = rss_choose(self->rss, 20, self->now_ns, &list);
	for (i = 0; i < nr; i++)
		found += list[i].pid == (uint32_t)pids[0];
	free(list);
	for (i = 0; i < ARRAY_SIZE(pids); i++) {
		kill(pids[i], SIGKILL);
		waitpid(pids[i], NULL, 0);
	}
	EXPECT_EQ(1, found);
}

TEST_HARNESS_MAIN
