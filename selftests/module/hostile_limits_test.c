// SPDX-License-Identifier: GPL-2.0-only
/*
 * Heaps at a limit: of heaps, of address space, of overcommit, of a cgroup's memory. Each ends in
 * an errno or in the other backend, and an OOM kill stays in its cgroup.
 */
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <time.h>

#include "hostile.h"
#include "namespaces.h"

#define CGROUPS "/sys/fs/cgroup/"
#define CGROUP	CGROUPS "hab-hostile"

#define GREEDY	  1001 /* uids */
#define OTHER	  1002
#define OF_USER	  8 /* heaps */

/* Makes heaps until that fails, and keeps them. The number of heaps, or -errno. */
static int make_heaps(struct who who, int most)
{
	struct hab_ioc_create create;
	int made, fd, err = become(who);

	for (made = 0; !err && made < most; made++) {
		fd = open(DEVICE, O_RDWR | O_CLOEXEC);
		if (fd < 0)
			return -errno;
		err = create_raw(fd, MiB, &create);
		if (err == -ENOSPC)
			break;
	}
	return err && err != -ENOSPC ? err : made;
}

/* A child that holds heaps; @made: how many. */
static pid_t hold_heaps(struct who who, int most, int *made)
{
	int answer[2];
	pid_t child;

	if (pipe2(answer, O_CLOEXEC))
		return -1;
	child = fork();
	if (!child) {
		*made = make_heaps(who, most);
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

/* How many heaps it gets; they end at once. */
static int count_heaps(uid_t uid, pid_t in, int below)
{
	pid_t child;
	int made;

	child = hold_heaps((struct who){ uid, in, below }, 100, &made);
	end(child);
	return made;
}

TEST_F(hostile, one_user_at_their_limit_leaves_heaps_to_the_others)
{
	int greedy_made, other_made, again_made;
	pid_t greedy, other, again;
	long refused;

	NEEDS_MODULE();
	refused = read_number("/sys/class/misc/hab/refused_heaps", "");
	EXPECT_EQ(0, write_text(LIMIT, "8"));
	chmod(DEVICE, 0666);
	greedy = hold_heaps((struct who){ .uid = GREEDY }, 100, &greedy_made);
	again = hold_heaps((struct who){ .uid = GREEDY }, 100, &again_made);
	other = hold_heaps((struct who){ .uid = OTHER }, 2, &other_made);
	EXPECT_EQ(OF_USER, greedy_made);
	EXPECT_EQ(0, again_made);
	EXPECT_EQ(2, other_made);
	/* Each of the two has ended with a refused heap. */
	EXPECT_EQ(refused + 2, read_number("/sys/class/misc/hab/refused_heaps", ""));
	end(greedy);
	end(other);
	end(again);
	/* The limit is of heaps at once. */
	ASSERT_TRUE(heaps_are(self->heaps));
	greedy = hold_heaps((struct who){ .uid = GREEDY }, 100, &greedy_made);
	EXPECT_EQ(OF_USER, greedy_made);
	end(greedy);
	/* Root is not limited. */
	ASSERT_TRUE(heaps_are(self->heaps));
	greedy = hold_heaps((struct who){ .uid = 0 }, 100, &greedy_made);
	EXPECT_EQ(100, greedy_made);
	end(greedy);
}

/* 0: a heap of any backend is of the process, and says why. */
static int uses_the_process_backend(void)
{
	struct hab_heap *heap;

	if (become((struct who){ .uid = GREEDY }) ||
	    create_heap(&heap, MiB, HAB_HEAP_DEVICE) != -ENOSPC || create_heap(&heap, MiB, 0))
		return 1;
	return strcmp(hab_heap_backend(heap), "process") ||
	       !strstr(hab_heap_backend_reason(heap), "No space left") || !hab_alloc(heap, 100);
}

TEST_F(hostile, heaps_beyond_the_owners_limit_use_the_process_backend)
{
	pid_t child;

	NEEDS_MODULE();
	ASSERT_EQ(0, write_text(LIMIT, "0"));
	chmod(DEVICE, 0666);
	child = fork();
	if (!child)
		_exit(uses_the_process_backend());
	EXPECT_EQ(0, status_of(child));
}

TEST_F(hostile, a_user_with_nested_namespaces_and_subordinate_uids_has_one_limit)
{
	pid_t greedy, first, second;
	int made;

	NEEDS_MODULE();
	EXPECT_EQ(0, write_text(LIMIT, "8"));
	chmod(DEVICE, 0666);
	first = hold_namespace(GREEDY);
	second = hold_namespace(GREEDY);
	ASSERT_LT(0, first);
	ASSERT_LT(0, second);
	greedy = hold_heaps((struct who){ 5, first, 3 }, 100, &made);
	EXPECT_EQ(OF_USER, made);
	EXPECT_EQ(0, count_heaps(GREEDY, 0, 0));
	EXPECT_EQ(0, count_heaps(GREEDY, 0, 4));
	EXPECT_EQ(0, count_heaps(6, first, 0));
	EXPECT_EQ(0, count_heaps(6, first, 2));
	EXPECT_EQ(0, count_heaps(0, second, 0));
	EXPECT_EQ(0, count_heaps(7, second, 1));
	EXPECT_EQ(OF_USER, count_heaps(OTHER, 0, 1));
	end(greedy);
	end(first);
	end(second);
}

TEST_F(hostile, a_namespace_that_root_made_has_one_limit_whatever_uids_are_in_it)
{
	pid_t container, other, greedy;
	int made;

	NEEDS_MODULE();
	EXPECT_EQ(0, write_text(LIMIT, "8"));
	chmod(DEVICE, 0666);
	container = hold_namespace(0);
	other = hold_namespace(0);
	ASSERT_LT(0, container);
	ASSERT_LT(0, other);
	greedy = hold_heaps((struct who){ 5, container, 0 }, 100, &made);
	EXPECT_EQ(OF_USER, made);
	EXPECT_EQ(0, count_heaps(5, container, 0));
	EXPECT_EQ(0, count_heaps(6, container, 0));
	EXPECT_EQ(0, count_heaps(0, container, 0));
	/* One that root of the container or another of its users has made. */
	EXPECT_EQ(0, count_heaps(0, container, 1));
	EXPECT_EQ(0, count_heaps(6, container, 1));
	EXPECT_EQ(0, count_heaps(6, container, 3));
	/* With the same uids, outside and in another namespace of root's. */
	EXPECT_EQ(OF_USER, count_heaps(100005, 0, 0));
	EXPECT_EQ(OF_USER, count_heaps(5, other, 0));
	end(greedy);
	end(container);
	end(other);
}

TEST_F(hostile, two_namespaces_that_root_made_have_two_limits)
{
	int made, others_made;
	pid_t one, other, greedy, others;

	NEEDS_MODULE();
	EXPECT_EQ(0, write_text(LIMIT, "8"));
	chmod(DEVICE, 0666);
	one = hold_namespace(0);
	other = hold_namespace(0);
	ASSERT_LT(0, one);
	ASSERT_LT(0, other);
	greedy = hold_heaps((struct who){ 5, one, 0 }, 100, &made);
	others = hold_heaps((struct who){ 5, other, 2 }, 100, &others_made);
	EXPECT_EQ(OF_USER, made);
	EXPECT_EQ(OF_USER, others_made);
	EXPECT_EQ(0, count_heaps(6, one, 0));
	EXPECT_EQ(0, count_heaps(6, other, 0));
	end(greedy);
	end(others);
	end(one);
	end(other);
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

#define OWNERS	  5000
#define AN_OWNERS 128 /* bytes, and less than it takes */
#define FULL	  9 /* seconds after which an owner's budget is full */

/*
 * In the cgroup: root's process makes and closes a heap as each of many users. It counts them, and
 * ends before the first of them is forgotten, however slow the machine is.
 */
static int be_many_owners(long *made)
{
	time_t end = time(NULL) + FULL / 2;
	struct hab_ioc_create create;
	uid_t i;
	int fd, err = join_cgroup();

	for (i = 0; i < OWNERS && time(NULL) < end && !err; i++) {
		if (setresuid(100000 + i, 0, 0))
			return -errno;
		fd = open(DEVICE, O_RDWR | O_CLOEXEC);
		if (fd < 0)
			return -errno;
		err = create_raw(fd, MiB, &create);
		close(fd);
		*made = i + 1;
	}
	return err;
}

static long slab(void)
{
	return read_number(CGROUP "/memory.stat", "slab ");
}

TEST_F_TIMEOUT(hostile, owners_without_heaps_are_charged_to_their_cgroup_and_forgotten, 120)
{
	long before, charged, *made;
	pid_t child;
	int i;

	NEEDS_MODULE();
	ASSERT_EQ(0, make_cgroup("max"));
	made = mmap(NULL, sizeof(*made), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, made);
	before = slab();
	child = fork();
	if (!child)
		_exit(be_many_owners(made) != 0);
	EXPECT_EQ(0, status_of(child));
	/* The kernel adds up its statistics every other second. */
	for (i = 0; i < 25 && slab() <= before + *made * AN_OWNERS; i++)
		usleep(100000);
	charged = slab();
	EXPECT_LT(before + *made * AN_OWNERS, charged);
	for (i = 0; i < 60 && slab() >= (before + charged) / 2; i++)
		sleep(1);
	EXPECT_GT((before + charged) / 2, slab())
	TH_LOG("slab: %ld before, %ld with %ld owners, %ld in the end", before, charged, *made,
	       slab());
	remove_cgroup();
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

#define SAMPLE_ENABLE "/sys/kernel/tracing/events/hab/hab_sample/enable"

/* A heap of user @uid by a process of root's; its descriptor. */
static int heap_as(uid_t uid)
{
	struct hab_ioc_create create;
	int fd;

	if (setresuid(uid, 0, 0))
		return -1;
	fd = open(DEVICE, O_RDWR | O_CLOEXEC);
	return fd < 0 || create_raw(fd, MiB, &create) ? -1 : fd;
}

static int report_sample(int fd)
{
	struct hab_ioc_report report = {
		.size = sizeof(report),
		.kind = HAB_EVENT_SAMPLE,
		.bytes = 4096,
		.chunk_bytes = 4096,
		.parts = 1,
		.interval = MiB,
	};

	return call(fd, HAB_IOC_REPORT, &report);
}

/* For kernels that check memory: the process's samples are its first owner's. */
static int outlive_first_owner(void)
{
	int first = heap_as(GREEDY), second = heap_as(OTHER), i;

	if (first < 0 || second < 0 || close(first))
		return 1;
	/* An owner without heaps is forgotten after 9 s. */
	for (i = 0; i < 120; i++) {
		if (report_sample(second))
			return 2;
		usleep(100000);
	}
	return 0;
}

TEST_F_TIMEOUT(hostile, a_process_outlives_the_heaps_of_its_first_owner, 120)
{
	pid_t child;

	NEEDS_MODULE();
	mount("tracefs", "/sys/kernel/tracing", "tracefs", 0, NULL);
	ASSERT_EQ(0, write_text(SAMPLE_ENABLE, "1"));
	child = fork();
	if (!child)
		_exit(outlive_first_owner());
	EXPECT_EQ(0, status_of(child));
	EXPECT_EQ(0, write_text(SAMPLE_ENABLE, "0"));
}

TEST_HARNESS_MAIN
