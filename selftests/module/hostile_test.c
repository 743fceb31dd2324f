// SPDX-License-Identifier: GPL-2.0-only
/*
 * Heaps of the device that several processes have, or should not have: descriptors that are shared,
 * passed on or open for reading only, and a user namespace.
 *
 * A heap whose creator has exited stays with a process that has the descriptor or a mapping, and
 * that process gets no memory that the creator got.
 */
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#include "hostile.h"

#define NOBODY 65534

/* Takes until the arena is used up, and marks each granule. */
static int take_and_mark(int fd, unsigned char *used, uint64_t *sum)
{
	struct hab_ioc_refill refill = { .size = sizeof(refill) };
	uint64_t i, first;
	int overlaps = 0;

	for (i = 1;; i = i * 7 % 1009) {
		refill.min_bytes = i;
		refill.want_bytes = 2 * i;
		if (call(fd, HAB_IOC_REFILL, &refill))
			return overlaps;
		first = refill.chunk_offset / HAB_GRANULE;
		for (i = first; i < first + refill.chunk_bytes / HAB_GRANULE; i++)
			overlaps += __atomic_exchange_n(&used[i], 1, __ATOMIC_RELAXED);
		__atomic_add_fetch(sum, refill.chunk_bytes, __ATOMIC_RELAXED);
		i = refill.min_bytes;
	}
}

TEST_F(hostile, two_processes_with_one_descriptor_never_get_the_same_chunk)
{
	const size_t arena = 16 * MiB;
	struct hab_ioc_stats stats = { .size = sizeof(stats) };
	struct hab_ioc_create create;
	unsigned char *used;
	uint64_t *sum;
	pid_t child;
	int fd;

	NEEDS_MODULE();
	fd = open(DEVICE, O_RDWR | O_CLOEXEC);
	ASSERT_EQ(0, create_raw(fd, arena, &create));
	used = mmap(NULL, arena / HAB_GRANULE + 4096, PROT_READ | PROT_WRITE,
		    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, used);
	sum = (uint64_t *)(used + arena / HAB_GRANULE);
	child = fork();
	if (!child)
		_exit(take_and_mark(fd, used, sum) != 0);
	EXPECT_EQ(0, take_and_mark(fd, used, sum));
	EXPECT_EQ(0, status_of(child));
	ASSERT_EQ(0, call(fd, HAB_IOC_STATS, &stats));
	EXPECT_EQ(arena, *sum + stats.levels[0].free_bytes + stats.levels[0].waste_bytes +
				 stats.levels[1].free_bytes + stats.levels[1].waste_bytes);
	EXPECT_EQ(0, stats.invalid_words);
	close(fd);
}

static int send_fd(int bus, int fd)
{
	union {
		struct cmsghdr header;
		char room[CMSG_SPACE(sizeof(int))];
	} control = { 0 };
	struct iovec piece = { "f", 1 };
	struct msghdr message = { .msg_iov = &piece,
				  .msg_iovlen = 1,
				  .msg_control = &control,
				  .msg_controllen = sizeof(control) };

	control.header.cmsg_level = SOL_SOCKET;
	control.header.cmsg_type = SCM_RIGHTS;
	control.header.cmsg_len = CMSG_LEN(sizeof(int));
	*(int *)CMSG_DATA(&control.header) = fd;
	return sendmsg(bus, &message, 0) < 0 ? -errno : 0;
}

static int receive_fd(int bus)
{
	union {
		struct cmsghdr header;
		char room[CMSG_SPACE(sizeof(int))];
	} control = { 0 };
	char byte;
	struct iovec piece = { &byte, 1 };
	struct msghdr message = { .msg_iov = &piece,
				  .msg_iovlen = 1,
				  .msg_control = &control,
				  .msg_controllen = sizeof(control) };

	if (recvmsg(bus, &message, MSG_CMSG_CLOEXEC) < 0)
		return -errno;
	return *(int *)CMSG_DATA(&control.header);
}

TEST_F(hostile, a_heap_serves_its_users_after_its_creator_exited)
{
	struct hab_ioc_refill refill = { .size = sizeof(refill),
					 .min_bytes = 64,
					 .want_bytes = 64 };
	struct hab_ioc_create create;
	uint64_t first, *words;
	char *arena;
	int bus[2], fd;
	pid_t child;

	NEEDS_MODULE();
	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_DGRAM, 0, bus));
	child = fork();
	if (!child) {
		fd = open(DEVICE, O_RDWR | O_CLOEXEC);
		_exit(create_raw(fd, MiB, &create) || call(fd, HAB_IOC_REFILL, &refill) ||
		      send_fd(bus[0], fd));
	}
	ASSERT_EQ(0, status_of(child));
	fd = receive_fd(bus[1]);
	ASSERT_GE(fd, 0);
	EXPECT_EQ(self->heaps + 1, heaps());
	EXPECT_EQ(-EBUSY, create_raw(fd, MiB, &create));
	ASSERT_EQ(0, call(fd, HAB_IOC_REFILL, &refill));
	first = refill.chunk_offset;
	/* Not a chunk of the other process. */
	EXPECT_NE(0, first);
	arena = mmap(NULL, MiB, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, HAB_MAP_ARENA);
	words = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, HAB_MAP_WORDS);
	ASSERT_NE(MAP_FAILED, arena);
	ASSERT_NE(MAP_FAILED, words);
	close(fd);
	arena[first] = 1;
	words[0] = 1;
	/* Mappings hold it, too. */
	EXPECT_EQ(self->heaps + 1, heaps());
	munmap(arena, MiB);
	munmap(words, 4096);
	close(bus[0]);
	close(bus[1]);
}

#define GENERATIONS 100

/* Takes memory in the heap and begins the next generation; the last one says how it went. */
static void live(struct hab_heap *heap, int generation, int answer, long heaps_before)
{
	bool good;

	while (generation++ < GENERATIONS && hab_alloc(heap, 100)) {
		if (fork())
			_exit(0);
	}
	/* Its own, and those of the test and of an ancestor that has not ended so far. */
	good = generation > GENERATIONS && heaps_are(heaps_before + 2);
	if (write(answer, &good, sizeof(good)) != sizeof(good))
		_exit(1);
	_exit(0);
}

TEST_F(hostile, generations_of_forked_children_keep_no_heap_of_their_ancestors)
{
	struct hab_heap *heap;
	bool good = false;
	int answer[2];
	pid_t child;

	NEEDS_MODULE();
	ASSERT_EQ(0, create_heap(&heap, MiB, HAB_HEAP_DEVICE));
	ASSERT_EQ(0, pipe2(answer, O_CLOEXEC));
	child = fork();
	if (!child)
		live(heap, 0, answer[1], self->heaps);
	close(answer[1]);
	EXPECT_EQ(0, status_of(child));
	EXPECT_EQ(sizeof(good), read(answer[0], &good, sizeof(good)));
	EXPECT_TRUE(good)
	TH_LOG("%ld heaps, and %ld before", heaps(), self->heaps);
	close(answer[0]);
	hab_heap_destroy(heap);
}

TEST_F(hostile, a_read_only_descriptor_has_no_heap_and_maps_nothing)
{
	struct hab_ioc_create create;
	int fd;

	NEEDS_MODULE();
	fd = open(DEVICE, O_RDONLY | O_CLOEXEC);
	ASSERT_LE(0, fd);
	EXPECT_EQ(-EBADF, create_raw(fd, MiB, &create));
	EXPECT_EQ(MAP_FAILED, mmap(NULL, MiB, PROT_READ, MAP_PRIVATE, fd, HAB_MAP_ARENA));
	EXPECT_EQ(EOPNOTSUPP, errno);
	EXPECT_EQ(MAP_FAILED, mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, HAB_MAP_WORDS));
	EXPECT_EQ(EOPNOTSUPP, errno);
	EXPECT_EQ(MAP_FAILED, mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, HAB_MAP_INFO));
	EXPECT_EQ(EOPNOTSUPP, errno);
	close(fd);
}

struct mover {
	uint64_t *word;
	uint64_t from;
	volatile int stop, ended;
};

/* Always to valid values: a refill's chunk is smaller than a step, so its end is never passed. */
#define MOVER_GRANULES 16

/* To the end of the block. */
static void *move_word(void *argument)
{
	struct mover *mover = argument;
	uint64_t word = mover->from;

	while (!mover->stop && HAB_WORD_FREE(word) > MOVER_GRANULES) {
		word -= MOVER_GRANULES * HAB_WORD_STEP;
		__atomic_store_n(mover->word, word, __ATOMIC_RELAXED);
	}
	mover->ended = 1;
	return NULL;
}

/*
 * Refills until one fails, while another thread moves the word. What it failed with; 0: the word
 * came to the end of its block before that.
 */
static int refill_while_moving(int fd, struct mover *mover, struct hab_ioc_refill *refill)
{
	pthread_t thread;
	int err;

	err = call(fd, HAB_IOC_REFILL, refill);
	if (err)
		return err;
	mover->from = *mover->word;
	mover->stop = mover->ended = 0;
	if (pthread_create(&thread, NULL, move_word, mover))
		return -EIO;
	while (!err && !mover->ended)
		err = call(fd, HAB_IOC_REFILL, refill);
	mover->stop = 1;
	pthread_join(thread, NULL);
	return err == -ENOMEM ? 0 : err;
}

TEST_F_TIMEOUT(hostile, a_refill_whose_shared_word_others_keep_moving_is_eagain, 120)
{
	struct hab_ioc_refill refill = { .size = sizeof(refill),
					 .min_bytes = 64,
					 .want_bytes = 64 };
	struct hab_ioc_create create = {
		.size = sizeof(create),
		.arena_bytes = 2 * HAB_BUFFER_MAX,
		.nr_levels = 1,
		.levels = { { HAB_BUFFER_MAX, HAB_DOMAIN_GLOBAL, 0 } },
		.name = "hostile",
	};
	struct mover mover = { 0 };
	int fd, err = 0, round;

	NEEDS_MODULE();
	fd = open(DEVICE, O_RDWR | O_CLOEXEC);
	ASSERT_EQ(0, call(fd, HAB_IOC_CREATE, &create));
	mover.word = mmap(NULL, create.words_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
			  HAB_MAP_WORDS);
	ASSERT_NE(MAP_FAILED, mover.word);
	for (round = 0; round < 1000 && !err; round++) {
		err = refill_while_moving(fd, &mover, &refill);
		/* A block was moved to its end in each. */
		ASSERT_EQ(0, call(fd, HAB_IOC_RESET, NULL));
	}
	EXPECT_EQ(-EAGAIN, err);
	/* When the word no longer moves, a refill works again. */
	EXPECT_EQ(0, call(fd, HAB_IOC_REFILL, &refill));
	close(fd);
	munmap(mover.word, create.words_bytes);
}

TEST_F(hostile, the_read_only_area_cannot_be_written_through_proc)
{
	struct hab_ioc_create create;
	struct hab_info *info;
	uint64_t noise = ~0ull;
	int fd, memory;

	NEEDS_MODULE();
	fd = open(DEVICE, O_RDWR | O_CLOEXEC);
	ASSERT_EQ(0, create_raw(fd, MiB, &create));
	info = mmap(NULL, create.info_bytes, PROT_READ, MAP_SHARED, fd, HAB_MAP_INFO);
	ASSERT_NE(MAP_FAILED, info);
	memory = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
	ASSERT_GE(memory, 0);
	EXPECT_EQ(-1, pwrite(memory, &noise, sizeof(noise), (off_t)(uintptr_t)info));
	EXPECT_EQ(HAB_INFO_MAGIC, info->magic);
	close(memory);
	close(fd);
	munmap(info, create.info_bytes);
}

/* User nobody, as root of its own namespace. */
static int become_root_of_a_namespace(void)
{
	if (setgid(NOBODY) || setuid(NOBODY) || unshare(CLONE_NEWUSER | CLONE_NEWNS))
		return -errno;
	/* Otherwise its own files in /proc belong to root. */
	prctl(PR_SET_DUMPABLE, 1);
	if (write_text("/proc/self/setgroups", "deny") ||
	    write_text("/proc/self/uid_map", "0 65534 1") ||
	    write_text("/proc/self/gid_map", "0 65534 1"))
		return -EPROTO;
	return geteuid() ? -EPROTO : 0;
}

enum { FINE, NO_NAMESPACE, WRONG_BACKEND, WRONG_REASON, TOO_MUCH, NO_HEAP };

static int in_a_namespace(bool allowed)
{
	struct hab_heap *heap;

	if (become_root_of_a_namespace())
		return NO_NAMESPACE;
	if (create_heap(&heap, MiB, 0) || !hab_alloc(heap, 100))
		return NO_HEAP;
	if (strcmp(hab_heap_backend(heap), allowed ? "device" : "process"))
		return WRONG_BACKEND;
	if (!allowed && !strstr(hab_heap_backend_reason(heap), "no permission"))
		return WRONG_REASON;
	/* Settings of the machine stay protected. */
	if (!write_text("/sys/class/misc/hab/rate", "1") || !write_text(LIMIT, "1"))
		return TOO_MUCH;
	hab_heap_destroy(heap);
	return FINE;
}

TEST_F(hostile, root_of_a_user_namespace_has_no_more_rights_than_its_user)
{
	pid_t child;

	NEEDS_MODULE();
	ASSERT_EQ(0, write_text("/sys/class/misc/hab/rate", "300"));
	child = fork();
	if (!child)
		_exit(in_a_namespace(false));
	EXPECT_EQ(FINE, WEXITSTATUS(status_of(child)));
	ASSERT_EQ(0, chmod(DEVICE, 0666));
	child = fork();
	if (!child)
		_exit(in_a_namespace(true));
	EXPECT_EQ(FINE, WEXITSTATUS(status_of(child)));
	EXPECT_EQ(300, read_number("/sys/class/misc/hab/rate", ""));
	EXPECT_EQ(1024, read_number(LIMIT, ""));
}

TEST_HARNESS_MAIN
