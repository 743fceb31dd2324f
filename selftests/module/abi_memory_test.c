// SPDX-License-Identifier: GPL-2.0-only
/*
 * The memory of /dev/hab without the library: what may be mapped and how, the cgroup that is
 * charged for it, and what happens to it when files are closed and processes fork.
 */
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "abi.h"

TEST_F(device, each_area_maps_once_and_only_with_its_own_flags)
{
	const struct hab_ioc_create *create = &self->create;
	const int rw = PROT_READ | PROT_WRITE;
	void *info, *words, *arena;

	ASSERT_EQ(0, created(self));
	EXPECT_EQ(-EINVAL, map_errno(self->fd, 4096, PROT_READ, MAP_SHARED, 4096));
	EXPECT_EQ(-EINVAL, map_errno(self->fd, 4096, PROT_READ, MAP_SHARED, 1ull << 60));
	EXPECT_EQ(-EACCES, map_errno(self->fd, create->info_bytes, rw, MAP_SHARED, HAB_MAP_INFO));
	EXPECT_EQ(-EINVAL,
		  map_errno(self->fd, create->info_bytes, PROT_READ, MAP_PRIVATE, HAB_MAP_INFO));
	EXPECT_EQ(-EINVAL, map_errno(self->fd, create->info_bytes + 4096, PROT_READ, MAP_SHARED,
				     HAB_MAP_INFO));
	EXPECT_EQ(-EINVAL,
		  map_errno(self->fd, create->words_bytes, rw, MAP_PRIVATE, HAB_MAP_WORDS));
	EXPECT_EQ(-EINVAL, map_errno(self->fd, create->words_bytes, rw | PROT_EXEC, MAP_SHARED,
				     HAB_MAP_WORDS));
	EXPECT_EQ(-EINVAL, map_errno(self->fd, ARENA, rw, MAP_SHARED, HAB_MAP_ARENA));
	EXPECT_EQ(-EINVAL, map_errno(self->fd, ARENA / 2, rw, MAP_PRIVATE, HAB_MAP_ARENA));

	info = mmap(NULL, create->info_bytes, PROT_READ, MAP_SHARED, self->fd, HAB_MAP_INFO);
	ASSERT_NE(MAP_FAILED, info);
	words = mmap(NULL, create->words_bytes, rw, MAP_SHARED, self->fd, HAB_MAP_WORDS);
	ASSERT_NE(MAP_FAILED, words);
	arena = mmap(NULL, ARENA, rw, MAP_PRIVATE | MAP_NORESERVE, self->fd, HAB_MAP_ARENA);
	ASSERT_NE(MAP_FAILED, arena);
	EXPECT_EQ(-1, mprotect(info, create->info_bytes, rw));
	EXPECT_EQ(EACCES, errno);
	EXPECT_EQ(-1, mprotect(words, create->words_bytes, PROT_READ | PROT_EXEC));
	EXPECT_EQ(-EBUSY,
		  map_errno(self->fd, create->info_bytes, PROT_READ, MAP_SHARED, HAB_MAP_INFO));
	EXPECT_EQ(-EBUSY, map_errno(self->fd, create->words_bytes, rw, MAP_SHARED, HAB_MAP_WORDS));
	EXPECT_EQ(-EBUSY, map_errno(self->fd, ARENA, rw, MAP_PRIVATE, HAB_MAP_ARENA));
	EXPECT_EQ(HAB_INFO_MAGIC, ((struct hab_info *)info)->magic);
	EXPECT_EQ(create->heap_id, ((struct hab_info *)info)->heap_id);
	EXPECT_EQ(0, ((char *)arena)[ARENA - 1]);
}

TEST_F(device, a_mapped_arena_outlives_the_closed_file)
{
	char *arena;

	ASSERT_EQ(0, created(self));
	arena = mmap(NULL, ARENA, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, self->fd,
		     HAB_MAP_ARENA);
	ASSERT_NE(MAP_FAILED, arena);
	arena[0] = 'a';
	close(self->fd);
	self->fd = -1;
	arena[ARENA - 1] = 'z';
	EXPECT_EQ('a', arena[0]);
	EXPECT_EQ(0, munmap(arena + ARENA / 4, ARENA / 4));
	EXPECT_EQ('z', arena[ARENA - 1]);
}

TEST_F(device, a_forked_child_keeps_the_arena_and_has_wiped_words)
{
	struct hab_ioc_refill refill = { .size = sizeof(refill),
					 .min_bytes = 64,
					 .want_bytes = 64 };
	const struct hab_info *info;
	char *arena;
	__u64 *words, *word;
	int status;
	pid_t child;

	ASSERT_EQ(0, created(self));
	arena = mmap(NULL, ARENA, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, self->fd,
		     HAB_MAP_ARENA);
	words = mmap(NULL, self->create.words_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, self->fd,
		     HAB_MAP_WORDS);
	ASSERT_NE(MAP_FAILED, arena);
	ASSERT_NE(MAP_FAILED, words);
	info = mmap(NULL, self->create.info_bytes, PROT_READ, MAP_SHARED, self->fd, HAB_MAP_INFO);
	ASSERT_NE(MAP_FAILED, info);
	ASSERT_EQ(0, call(self->fd, HAB_IOC_REFILL, &refill));
	word = words + refill.domain * (HAB_WORD_STRIDE / sizeof(*words));
	ASSERT_NE(0, *word);
	arena[0] = 'p';
	child = fork();
	ASSERT_GE(child, 0);
	if (!child) {
		if (arena[0] != 'p' || info->magic != HAB_INFO_MAGIC)
			_exit(1);
		arena[0] = 'c';
		if (*word)
			_exit(2);
		/* What it writes is its own. */
		*word = 1;
		_exit(*word != 1);
	}
	ASSERT_EQ(child, waitpid(child, &status, 0));
	EXPECT_EQ(0, status);
	EXPECT_EQ('p', arena[0]);
	EXPECT_EQ(HAB_WORD((refill.chunk_offset + 64) >> HAB_GRANULE_SHIFT,
			   (refill.granted_bytes - 64) >> HAB_GRANULE_SHIFT),
		  *word);
}

#define GROUPS "/sys/fs/cgroup/"
#define GROUP  GROUPS "hab-abi-test/"

/* What the group is charged for vmalloc(), in bytes. */
static long charged(void)
{
	return read_number(GROUP "memory.stat", "vmalloc ");
}

TEST_F(device, kernel_memory_of_a_heap_is_charged_to_the_creators_memory_cgroup)
{
	long areas = 0, before, after = 0;
	int fds[64], n, tries;

	write_text(GROUPS "cgroup.subtree_control", "+memory");
	if ((mkdir(GROUP, 0755) && errno != EEXIST) || write_text(GROUP "cgroup.procs", "0"))
		SKIP(return, "no memory cgroups here, or none to be made by this user");
	before = charged();
	if (before < 0) {
		write_text(GROUPS "cgroup.procs", "0");
		rmdir(GROUP);
		SKIP(return, "this kernel does not charge memory to cgroups");
	}
	for (n = 0; n < 64; n++) {
		self->create = usual();
		fds[n] = open("/dev/hab", O_RDWR | O_CLOEXEC);
		EXPECT_EQ(0, call(fds[n], HAB_IOC_CREATE, &self->create));
		areas += self->create.info_bytes + self->create.words_bytes;
	}
	/* The kernel updates the sums every two seconds. */
	for (tries = 0; tries < 100 && after < before + areas; tries++) {
		usleep(100000);
		after = charged();
	}
	EXPECT_LE(before + areas, after);
	write_text(GROUPS "cgroup.procs", "0");
	for (n = 0; n < 64; n++)
		close(fds[n]);
	rmdir(GROUP);
}

struct closing {
	int fd;
	volatile int stop;
};

static void *refill_for_ever(void *argument)
{
	struct closing *closing = argument;

	while (!closing->stop) {
		struct hab_ioc_refill refill = {
			.size = sizeof(refill),
			.min_bytes = 64,
			.want_bytes = 4096,
		};

		if (ioctl(closing->fd, HAB_IOC_REFILL, &refill) && errno == ENOMEM)
			ioctl(closing->fd, HAB_IOC_RESET, 0);
	}
	return NULL;
}

TEST_F(device, a_close_while_other_threads_refill_does_no_harm)
{
	struct closing closing = { 0 };
	pthread_t threads[4];
	int round, i;

	for (round = 0; round < 20; round++) {
		struct hab_ioc_create create = usual();
		int fd = open("/dev/hab", O_RDWR);

		ASSERT_EQ(0, call(fd, HAB_IOC_CREATE, &create));
		closing.fd = fd;
		closing.stop = 0;
		for (i = 0; i < 4; i++)
			pthread_create(&threads[i], NULL, refill_for_ever, &closing);
		usleep(5000);
		close(fd);
		usleep(1000);
		closing.stop = 1;
		for (i = 0; i < 4; i++)
			pthread_join(threads[i], NULL);
	}
}

TEST_HARNESS_MAIN
