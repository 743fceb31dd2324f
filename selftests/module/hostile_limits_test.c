// SPDX-License-Identifier: GPL-2.0-only
/*
 * Heaps at a limit: of heaps, of address space, of overcommit, of a cgroup's memory. Each ends in
 * an errno or in the other backend, and an OOM kill stays in its cgroup.
 */
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>

#include "hostile.h"

#define CGROUPS "/sys/fs/cgroup/"
#define CGROUP	CGROUPS "hab-hostile"

TEST_F(hostile, heaps_beyond_the_machines_limit_use_the_process_backend)
{
	struct hab_heap *heap = NULL;
	char limit[16];

	NEEDS_MODULE();
	snprintf(limit, sizeof(limit), "%ld", self->heaps);
	ASSERT_EQ(0, write_text(LIMIT, limit));
	EXPECT_EQ(-ENOSPC, create_heap(&heap, MiB, HAB_HEAP_DEVICE));
	ASSERT_EQ(0, create_heap(&heap, MiB, 0));
	EXPECT_STREQ("process", hab_heap_backend(heap));
	EXPECT_NE(NULL, strstr(hab_heap_backend_reason(heap), "No space left"));
	EXPECT_NE(NULL, hab_alloc(heap, 100));
	hab_heap_destroy(heap);
}

#define GREEDY	  1001 /* uids */
#define OTHER	  1002
#define OF_USER	  8 /* heaps */
#define OF_OTHERS 8

/* Makes heaps as user @uid until that fails, and keeps them. The number of heaps, or -errno. */
static int make_heaps(uid_t uid, int most)
{
	struct hab_ioc_create create;
	int made, fd, err;

	if (setuid(uid))
		return -errno;
	for (made = 0; made < most; made++) {
		fd = open(DEVICE, O_RDWR | O_CLOEXEC);
		if (fd < 0)
			return -errno;
		err = create_raw(fd, MiB, &create);
		if (err)
			return err == -ENOSPC ? made : err;
	}
	return made;
}

/* A child that holds heaps of @uid; @made: how many. */
static pid_t hold_heaps(uid_t uid, int most, int *made)
{
	int answer[2];
	pid_t child;

	if (pipe2(answer, O_CLOEXEC))
		return -1;
	child = fork();
	if (!child) {
		*made = make_heaps(uid, most);
		if (write(answer[1], made, sizeof(*made)) == sizeof(*made))
			pause();
		_exit(1);
	}
	close(answer[1]);
	if (read(answer[0], made, sizeof(*made)) != sizeof(*made))
		*made = -EIO;
	close(answer[0]);
	return child;
}

static void end(pid_t child)
{
	kill(child, SIGKILL);
	status_of(child);
}

TEST_F(hostile, one_user_at_their_limit_leaves_heaps_to_the_others)
{
	int greedy_made, other_made, again_made;
	pid_t greedy, other, again;
	char limit[32];

	NEEDS_MODULE();
	snprintf(limit, sizeof(limit), "%ld", self->heaps + OF_USER + OF_OTHERS);
	ASSERT_EQ(0, write_text(LIMIT, limit));
	snprintf(limit, sizeof(limit), "%d", OF_USER);
	EXPECT_EQ(0, write_text(USER_LIMIT, limit));
	chmod(DEVICE, 0666);
	greedy = hold_heaps(GREEDY, 100, &greedy_made);
	again = hold_heaps(GREEDY, 100, &again_made);
	other = hold_heaps(OTHER, 2, &other_made);
	EXPECT_EQ(OF_USER, greedy_made);
	EXPECT_EQ(0, again_made);
	EXPECT_EQ(2, other_made);
	end(greedy);
	end(other);
	end(again);
	/* The limit is of heaps at once. */
	ASSERT_TRUE(heaps_are(self->heaps));
	greedy = hold_heaps(GREEDY, 100, &greedy_made);
	EXPECT_EQ(OF_USER, greedy_made);
	end(greedy);
	/* Root is not limited. */
	ASSERT_TRUE(heaps_are(self->heaps));
	greedy = hold_heaps(0, 100, &greedy_made);
	EXPECT_EQ(OF_USER + OF_OTHERS, greedy_made);
	end(greedy);
}

/* As newuidmap does for a range of subordinate uids. */
static int map_uids(pid_t child)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/uid_map", child);
	return write_text(path, "0 100000 10\n");
}

TEST_F(hostile, the_uids_of_a_users_namespace_have_one_limit)
{
	int unshared[2], mapped[2], status, made;
	pid_t greedy, inside;
	char byte;

	NEEDS_MODULE();
	EXPECT_EQ(0, write_text(USER_LIMIT, "8"));
	chmod(DEVICE, 0666);
	ASSERT_EQ(0, pipe2(unshared, O_CLOEXEC));
	ASSERT_EQ(0, pipe2(mapped, O_CLOEXEC));
	greedy = hold_heaps(GREEDY, 100, &made);
	EXPECT_EQ(OF_USER, made);
	inside = fork();
	if (!inside) {
		if (setuid(GREEDY) || unshare(CLONE_NEWUSER) || write(unshared[1], "u", 1) != 1 ||
		    read(mapped[0], &byte, 1) != 1)
			_exit(100);
		made = make_heaps(5, 100);
		_exit(made < 0 ? 101 : made);
	}
	ASSERT_EQ(1, read(unshared[0], &byte, 1));
	ASSERT_EQ(0, map_uids(inside));
	ASSERT_EQ(1, write(mapped[1], "m", 1));
	status = status_of(inside);
	EXPECT_TRUE(WIFEXITED(status));
	EXPECT_EQ(0, WEXITSTATUS(status));
	end(greedy);
}

TEST_F(hostile, without_address_space_a_heap_is_enomem)
{
	struct rlimit limit = { 256 * MiB, 256 * MiB };
	struct hab_heap *heap;
	int i;

	NEEDS_MODULE();
	ASSERT_EQ(0, setrlimit(RLIMIT_AS, &limit));
	for (i = 0; i < 50; i++)
		EXPECT_EQ(-ENOMEM, create_heap(&heap, 1024 * MiB, HAB_HEAP_DEVICE));
	ASSERT_EQ(0, create_heap(&heap, 32 * MiB, HAB_HEAP_DEVICE));
	EXPECT_NE(NULL, hab_alloc(heap, 100));
	hab_heap_destroy(heap);
}

TEST_F(hostile, without_overcommit_a_heap_larger_than_memory_is_enomem)
{
	struct hab_heap *heap, *small;
	uint32_t flags;

	NEEDS_MODULE();
	ASSERT_EQ(0, write_text(OVERCOMMIT, "2"));
	for (flags = HAB_HEAP_PROCESS; flags <= HAB_HEAP_DEVICE; flags++) {
		EXPECT_EQ(-ENOMEM, create_heap(&heap, 64ul << 30, flags));
		ASSERT_EQ(0, create_heap(&small, 4 * MiB, flags));
		EXPECT_NE(NULL, hab_alloc(small, 100));
		hab_heap_destroy(small);
	}
}

static int make_cgroup(const char *limit)
{
	write_text(CGROUPS "cgroup.subtree_control", "+memory");
	if (mkdir(CGROUP, 0755))
		return -errno;
	return write_text(CGROUP "/memory.max", limit);
}

static int join_cgroup(void)
{
	return write_text(CGROUP "/cgroup.procs", "0");
}

static void remove_cgroup(void)
{
	int i;

	for (i = 0; i < LOOKS && rmdir(CGROUP); i++)
		usleep(50000);
}

/* In the cgroup: uses more memory than its limit. */
static void use_up(void)
{
	struct hab_heap *heap;
	char *object;

	if (join_cgroup() || create_heap(&heap, 512 * MiB, HAB_HEAP_DEVICE))
		_exit(1);
	while ((object = hab_alloc(heap, 4096)))
		memset(object, 1, 4096);
	_exit(2);
}

static pid_t hold_one(int ready)
{
	struct hab_heap *heap;
	pid_t child = fork();

	if (child)
		return child;
	if (join_cgroup() || create_heap(&heap, MiB, HAB_HEAP_DEVICE) || !hab_alloc(heap, 100) ||
	    write(ready, "r", 1) != 1)
		_exit(1);
	for (;;)
		pause();
}

/* selftests/vm/run accepts complaints of the kernel between these marks. */
static void expect_oom(bool begins)
{
	write_text("/dev/kmsg", begins ? "hab-vm: an OOM kill is meant from here\n" :
					 "hab-vm: an OOM kill is meant to here\n");
}

TEST_F(hostile, an_oom_kill_frees_the_heaps_of_its_cgroup_and_no_others)
{
	struct hab_heap *mine;
	int ready[2], status;
	pid_t hog, bystander;
	char byte, *object;

	NEEDS_MODULE();
	ASSERT_EQ(0, create_heap(&mine, MiB, HAB_HEAP_DEVICE));
	object = hab_alloc(mine, 100);
	ASSERT_NE(NULL, object);
	strcpy(object, "mine");
	ASSERT_EQ(0, make_cgroup("32M"));
	ASSERT_EQ(0, write_text(CGROUP "/memory.oom.group", "1"));
	ASSERT_EQ(0, pipe2(ready, O_CLOEXEC));
	bystander = hold_one(ready[1]);
	ASSERT_EQ(1, read(ready[0], &byte, 1));
	expect_oom(true);
	hog = fork();
	if (!hog)
		use_up();
	status = status_of(hog);
	EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
	TH_LOG("the hog ended with 0x%x", status);
	status = status_of(bystander);
	EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	expect_oom(false);
	EXPECT_GE(read_number(CGROUP "/memory.events", "oom_kill "), 2);
	EXPECT_TRUE(heaps_are(self->heaps + 1));
	EXPECT_STREQ("mine", object);
	EXPECT_NE(NULL, hab_alloc(mine, 100));
	hab_heap_destroy(mine);
	remove_cgroup();
}

TEST_HARNESS_MAIN
