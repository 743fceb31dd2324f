// SPDX-License-Identifier: GPL-2.0-only
/*
 * Tests the reading of maps against processes that make it slow: files that cannot be opened at
 * once, readers that do not end, announcements without end. Needs root, to be other users.
 */
#include "kselftest_harness.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "daemon/symbols/processes.h"
#include "selftests/fuzz/elf_file.h"

#define OTHER_USER 65533
#define VICTIM	   65531
#define MS	   1000

struct stack {
	struct waiter waiter; /* first */
	struct hab_frame frame;
	uint64_t translated; /* a FRAME(); 0: it still waits */
};

FIXTURE(processes)
{
	pthread_mutex_t lock;
	struct binaries *binaries;
	struct processes *processes;
	uint8_t file[ELF_ROOM];
	size_t size;
	pid_t children[8];
	unsigned int nr_children;
};

static void release(void *context, struct process *process, struct waiter *waiter)
{
	struct _test_data_processes *self = context;
	struct stack *stack = (struct stack *)waiter;

	processes_translate(self->processes, process, &stack->frame, 1, &stack->translated);
}

FIXTURE_SETUP(processes)
{
	if (getuid())
		SKIP(return, "only root can be other users");
	signal(SIGPIPE, SIG_IGN);
	pthread_mutex_init(&self->lock, NULL);
	self->binaries = binaries_new();
	self->processes = processes_new(self->binaries, &self->lock);
	processes_set_release(self->processes, release, self);
	processes_start(self->processes);
	self->size = elf_file_make(self->file);
}

FIXTURE_TEARDOWN(processes)
{
	while (self->nr_children)
		kill(self->children[--self->nr_children], SIGKILL);
	processes_free(self->processes);
	binaries_free(self->binaries);
}

/* A process of @user that does @act and then waits. Returns once it has. */
static pid_t start(struct _test_data_processes *self, uid_t user,
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
		if (setgid(user) || setuid(user))
			_exit(1);
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

/* Requests the maps of @pid, for a stack with one address. True if the stack waits. */
static bool ask(struct _test_data_processes *self, pid_t pid, uid_t user, const void *address,
		struct stack *stack)
{
	struct process *process;
	bool waits;

	memset(stack, 0, sizeof(*stack));
	stack->frame.status = HAB_FRAME_ADDRESS;
	stack->frame.offset = (uintptr_t)address;
	pthread_mutex_lock(&self->lock);
	process = processes_see(self->processes, (uint32_t)pid, user, false);
	waits = processes_should_wait(self->processes, process,
				      processes_translate(self->processes, process, &stack->frame,
							  1, &stack->translated));
	if (waits) {
		stack->translated = 0;
		processes_add_waiter(self->processes, process, &stack->waiter);
	}
	pthread_mutex_unlock(&self->lock);
	return waits;
}

/* Waits until the stack is translated. */
static void await(struct _test_data_processes *self, const struct stack *stack)
{
	bool done;

	do {
		usleep(MS);
		pthread_mutex_lock(&self->lock);
		processes_tidy(self->processes);
		done = stack->translated;
		pthread_mutex_unlock(&self->lock);
	} while (!done);
}

static const char *name_of(const struct _test_data_processes *self, const struct stack *stack)
{
	return binaries_get(self->binaries, FRAME_BINARY(stack->translated))->name;
}

/* This program is every child's, too. */
TEST_F(processes, a_stack_waits_for_maps_and_is_then_translated)
{
	pid_t child = start(self, VICTIM, NULL);
	struct stack stack;

	EXPECT_TRUE(ask(self, child, VICTIM, (const void *)release, &stack));
	await(self, &stack);
	EXPECT_STREQ("processes_test", name_of(self, &stack));
	EXPECT_FALSE(ask(self, child, VICTIM, (const void *)release, &stack));
	EXPECT_STREQ("processes_test", name_of(self, &stack));
}

TEST_F(processes, the_stack_of_an_ended_process_has_only_addresses)
{
	pid_t child = start(self, VICTIM, NULL);
	struct stack stack;

	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	ask(self, child, VICTIM, (const void *)release, &stack);
	await(self, &stack);
	EXPECT_EQ(FRAME(BINARY_UNKNOWN, (uintptr_t)release), stack.translated);
	EXPECT_EQ(1, processes_counts(self->processes).unreadable);
}

/* Maps a file that no other process can open while the lease is held. */
static void hold_lease(const struct _test_data_processes *self)
{
	char path[] = "/tmp/processes_test.XXXXXX";
	int fd = mkstemp(path);

	/* Files below /proc/PID are root's after setuid(), unless the process can be dumped. */
	prctl(PR_SET_DUMPABLE, 1);
	if (fd < 0 || write(fd, self->file, self->size) != (ssize_t)self->size || close(fd))
		_exit(1);
	fd = open(path, O_RDONLY);
	unlink(path);
	/* The kernel asks for the lease by this signal, which would end the process. */
	signal(SIGIO, SIG_IGN);
	if (fd < 0 ||
	    mmap(NULL, self->size, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0) == MAP_FAILED ||
	    fcntl(fd, F_SETLEASE, F_WRLCK))
		_exit(1);
}

/* An open that waits for the lease takes 45 s. The limit here is 15 s, see patience.h. */
TEST_F_TIMEOUT(processes, a_lease_on_a_mapped_file_delays_nothing, 5)
{
	pid_t child = start(self, OTHER_USER, hold_lease);
	struct stack stack;

	ask(self, child, OTHER_USER, (const void *)release, &stack);
	await(self, &stack);
	EXPECT_STREQ("processes_test", name_of(self, &stack));
	EXPECT_EQ(0, processes_counts(self->processes).late);
}

/* The children of @parent, at most two. */
static unsigned int children_of(pid_t parent, const char *name, pid_t children[2])
{
	unsigned int count = 0;
	struct dirent *entry;
	char path[300], found[32];
	DIR *folder = opendir("/proc");
	FILE *file;
	int of;

	while (folder && count < 2 && (entry = readdir(folder))) {
		snprintf(path, sizeof(path), "/proc/%s/stat", entry->d_name);
		file = atoi(entry->d_name) > 1 ? fopen(path, "re") : NULL;
		if (!file)
			continue;
		if (fscanf(file, "%*d (%31[^)]) %*c %d", found, &of) == 2 && of == parent &&
		    !strcmp(found, name))
			children[count++] = atoi(entry->d_name);
		fclose(file);
	}
	if (folder)
		closedir(folder);
	return count;
}

/* Sends a signal to both readers. */
static void signal_readers(struct __test_metadata *_metadata, int number)
{
	pid_t keepers[2], reader[2];
	unsigned int i;

	/* A keeper has that name a moment after its start. */
	while (children_of(getpid(), "habd-maps", keepers) < 2)
		usleep(MS);
	for (i = 0; i < 2; i++) {
		while (!children_of(keepers[i], "habd-maps", reader))
			usleep(MS);
		ASSERT_EQ(0, kill(reader[0], number));
	}
}

TEST_F(processes, a_reading_that_does_not_end_is_given_up_and_others_maps_are_read)
{
	pid_t slow = start(self, OTHER_USER, NULL), child = start(self, VICTIM, NULL);
	struct stack stack, other;

	signal_readers(_metadata, SIGSTOP);
	EXPECT_TRUE(ask(self, slow, OTHER_USER, (const void *)release, &stack));
	usleep(100 * MS);
	EXPECT_TRUE(ask(self, child, VICTIM, (const void *)release, &other));
	await(self, &other);
	EXPECT_STREQ("processes_test", name_of(self, &other));
	await(self, &stack);
	EXPECT_EQ(1, processes_counts(self->processes).late);
}

static atomic_bool is_mapped;

/* Answers a request of the kernel. */
static void answer(int fd, const struct fuse_in_header *in, const void *data, size_t size)
{
	struct fuse_out_header out = { (uint32_t)(sizeof(out) + size), 0, in->unique };
	struct iovec parts[] = { { &out, sizeof(out) }, { (void *)data, size } };

	if (writev(fd, parts, 2) < 0)
		_exit(1);
}

/* A file system with one executable file. Its answers end when the file has been mapped. */
static void *serve(void *context)
{
	const int *fd = context;
	static union {
		struct fuse_in_header in;
		char room[1 << 17];
	} request;
	struct fuse_attr_out attributes = {
		.attr = { .ino = 2, .size = 4096, .mode = S_IFREG | 0755, .nlink = 1 }
	};
	struct fuse_entry_out entry = { .nodeid = 2, .attr = attributes.attr };
	struct fuse_init_out init = { .major = FUSE_KERNEL_VERSION,
				      .minor = FUSE_KERNEL_MINOR_VERSION,
				      .max_write = 4096 };
	struct fuse_open_out opened = { .fh = 1 };

	while (read(*fd, &request, sizeof(request)) > 0) {
		if (is_mapped)
			for (;;)
				pause();
		if (request.in.opcode == FUSE_INIT)
			answer(*fd, &request.in, &init, sizeof(init));
		else if (request.in.opcode == FUSE_LOOKUP)
			answer(*fd, &request.in, &entry, sizeof(entry));
		else if (request.in.opcode == FUSE_OPEN)
			answer(*fd, &request.in, &opened, sizeof(opened));
		else if (request.in.opcode == FUSE_GETATTR)
			answer(*fd, &request.in, &attributes, sizeof(attributes));
		else
			answer(*fd, &request.in, NULL, 0);
	}
	return NULL;
}

/* Maps a file of a file system that then answers nothing: not even SIGKILL ends its reader. */
static void map_silent_file(const struct _test_data_processes *self)
{
	static int fuse;
	char options[100];
	pthread_t thread;
	int fd;

	(void)self;
	fuse = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	snprintf(options, sizeof(options), "fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other",
		 fuse);
	if (fuse < 0 || unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount("processes_test", "/tmp", "fuse", 0, options) ||
	    pthread_create(&thread, NULL, serve, &fuse))
		_exit(1);
	fd = open("/tmp/file", O_RDONLY | O_CLOEXEC);
	if (fd < 0 || mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0) == MAP_FAILED)
		_exit(1);
	/* At its end the process could not wait for its own answer. */
	close(fd);
	is_mapped = true;
}

TEST_F(processes, a_file_system_that_never_answers_delays_no_other_user)
{
	struct stack stack, other;
	pid_t silent, child;
	unsigned int i;

	if (access("/dev/fuse", R_OK | W_OK) || system("unshare -m true"))
		SKIP(return, "this machine has no FUSE, or lets nobody mount");
	child = start(self, VICTIM, NULL);
	silent = start(self, 0, map_silent_file);
	EXPECT_TRUE(ask(self, silent, OTHER_USER, (const void *)release, &stack));
	await(self, &stack);
	EXPECT_LE(1, processes_counts(self->processes).late);
	/* The user is slow from now on; another user has the first reader again. */
	for (i = 0; i < 20; i++) {
		pthread_mutex_lock(&self->lock);
		processes_see(self->processes, (uint32_t)silent, OTHER_USER, true);
		pthread_mutex_unlock(&self->lock);
	}
	EXPECT_TRUE(ask(self, child, VICTIM, (const void *)release, &other));
	await(self, &other);
	EXPECT_STREQ("processes_test", name_of(self, &other));
	EXPECT_EQ(1, processes_counts(self->processes).late);
}

static uint64_t now_seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec;
}

TEST_F(processes, a_process_that_is_announced_all_the_time_is_read_a_few_times_a_second)
{
	pid_t busy = start(self, OTHER_USER, NULL), child = start(self, VICTIM, NULL);
	uint64_t before, after, began, seconds;
	struct stack stack;
	unsigned int i;

	ask(self, busy, OTHER_USER, (const void *)release, &stack);
	await(self, &stack);
	before = processes_counts(self->processes).readings;
	began = now_seconds();
	for (i = 0; i < 3000; i++) {
		pthread_mutex_lock(&self->lock);
		processes_see(self->processes, (uint32_t)busy, OTHER_USER, true);
		pthread_mutex_unlock(&self->lock);
		usleep(MS);
	}
	after = processes_counts(self->processes).readings;
	/* A busy machine takes longer. */
	seconds = now_seconds() - began + 1;
	EXPECT_LT(before, after);
	EXPECT_GE(before + 4 * seconds, after);
	EXPECT_TRUE(ask(self, child, VICTIM, (const void *)release, &stack));
	await(self, &stack);
	EXPECT_STREQ("processes_test", name_of(self, &stack));
}

TEST_F(processes, another_user_cannot_push_a_process_out)
{
	struct stack stack;
	uint64_t readings;
	uint32_t pid;

	ask(self, getpid(), VICTIM, (const void *)release, &stack);
	await(self, &stack);
	for (pid = 1 << 24; pid < (1 << 24) + 8192; pid++) {
		pthread_mutex_lock(&self->lock);
		processes_see(self->processes, pid, OTHER_USER, false);
		pthread_mutex_unlock(&self->lock);
	}
	readings = processes_counts(self->processes).readings;
	EXPECT_FALSE(ask(self, getpid(), VICTIM, (const void *)release, &stack));
	EXPECT_STREQ("processes_test", name_of(self, &stack));
	EXPECT_LE(readings, processes_counts(self->processes).readings);
}

TEST_F(processes, one_users_waiting_stacks_leave_room_for_anothers)
{
	static struct stack stacks[20000];
	pid_t child = start(self, VICTIM, NULL);
	struct stack stack;
	unsigned int i, waiting = 0;

	signal_readers(_metadata, SIGSTOP);
	for (i = 0; i < 20000; i++)
		waiting += ask(self, (1 << 24) + (int)i % 64, OTHER_USER, (const void *)release,
			       &stacks[i]);
	EXPECT_LT(0, waiting);
	EXPECT_GT(20000, waiting);
	EXPECT_TRUE(ask(self, child, VICTIM, (const void *)release, &stack));
	signal_readers(_metadata, SIGCONT);
	await(self, &stack);
	EXPECT_STREQ("processes_test", name_of(self, &stack));
}

TEST_HARNESS_MAIN
