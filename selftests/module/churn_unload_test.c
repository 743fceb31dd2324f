// SPDX-License-Identifier: GPL-2.0-only
/*
 * The module is unloaded at every moment of a heap's life: while processes open the device, make
 * heaps, map them, refill, close, are killed, and read its files. Unloading succeeds only if
 * nothing uses the module, and is EBUSY otherwise; users get an errno after it.
 *
 * For VMs: it loads and unloads the module HAB_MODULE, or the one of selftests/vm/run. HAB_CYCLES=N
 * is the number of unloads that must succeed.
 */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "lib/hab.h"
#include "uapi/hab.h"

#define MODULE	"/run/hab-vm/hab.ko"
#define DEVICE	"/dev/hab"
#define SYSFS	"/sys/class/misc/hab/"
#define ARENA	(1ul << 20)
#define USERS	4
#define CYCLES	25
#define PATIENT 100000 /* tries */

/* Counters of the users, by the step that they reached. */
struct seen {
	uint64_t absent;
	uint64_t opened;
	uint64_t made;
	uint64_t mapped;
	uint64_t refilled;
	uint64_t library;
	uint64_t odd; /* unexpected errnos */
	int odd_errno;
	int stop;
};

static struct seen *seen;

static void count(uint64_t *counter)
{
	__atomic_add_fetch(counter, 1, __ATOMIC_RELAXED);
}

/* Errnos of a missing module are expected; others are not. */
static void count_errno(void)
{
	if (errno == ENOENT || errno == ENODEV || errno == ENXIO) {
		count(&seen->absent);
		return;
	}
	seen->odd_errno = errno;
	count(&seen->odd);
}

static unsigned int dice;

static bool once_in(unsigned int n)
{
	return rand_r(&dice) % n == 0;
}

/* From open to close; it may stop after any step. */
static void live_by_hand(void)
{
	struct hab_ioc_create create = {
		.size = sizeof(create),
		.arena_bytes = ARENA,
		.nr_levels = 1,
		.levels = { { 64 << 10, HAB_DOMAIN_CPU, 0 } },
		.name = "churn",
	};
	struct hab_ioc_refill refill = { .size = sizeof(refill),
					 .min_bytes = 64,
					 .want_bytes = 4096 };
	int fd = open(DEVICE, O_RDWR | O_CLOEXEC);
	char *arena = MAP_FAILED;

	if (fd < 0) {
		count_errno();
		return;
	}
	count(&seen->opened);
	if (once_in(4))
		goto close_fd;
	if (ioctl(fd, HAB_IOC_CREATE, &create)) {
		count_errno();
		goto close_fd;
	}
	count(&seen->made);
	if (once_in(4))
		goto close_fd;
	arena = mmap(NULL, ARENA, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, HAB_MAP_ARENA);
	if (arena == MAP_FAILED) {
		count_errno();
		goto close_fd;
	}
	count(&seen->mapped);
	if (ioctl(fd, HAB_IOC_REFILL, &refill))
		count_errno();
	else
		count(&seen->refilled);
close_fd:
	close(fd);
	/* A mapping alone holds the module, too. */
	if (arena != MAP_FAILED) {
		arena[refill.chunk_offset] = 1;
		munmap(arena, ARENA);
	}
}

static void live_by_library(void)
{
	struct hab_heap_config config;
	struct hab_heap *heap;

	hab_heap_config_init(&config);
	config.arena_bytes = ARENA;
	config.name = "churn";
	/* Either backend is accepted. */
	errno = -hab_heap_create(&heap, &config);
	if (errno || !hab_alloc(heap, 100)) {
		count_errno();
		return;
	}
	if (!strcmp(hab_heap_backend(heap), "device"))
		count(&seen->library);
	hab_heap_destroy(heap);
}

static void read_all_files(void)
{
	DIR *files = opendir(SYSFS);
	struct dirent *entry;
	char path[300], text[4096];
	int fd;

	while (files && (entry = readdir(files))) {
		snprintf(path, sizeof(path), SYSFS "%s", entry->d_name);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd < 0)
			continue;
		if (read(fd, text, sizeof(text)) < 0)
			text[0] = 0;
		close(fd);
	}
	if (files)
		closedir(files);
}

static void use(int index)
{
	int i;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	dice = index + 1;
	while (!__atomic_load_n(&seen->stop, __ATOMIC_RELAXED)) {
		if (index == 0)
			read_all_files();
		for (i = rand_r(&dice) % 4; i; i--)
			live_by_hand();
		live_by_library();
		/* Moments without any user. */
		usleep(rand_r(&dice) % 20000);
	}
	_exit(0);
}

static int load(void)
{
	const char *path = getenv("HAB_MODULE");
	int fd = open(path ? path : MODULE, O_RDONLY | O_CLOEXEC);
	int err = 0;

	if (fd < 0)
		return -errno;
	if (syscall(SYS_finit_module, fd, "", 0) && errno != EEXIST)
		err = -errno;
	close(fd);
	return err;
}

static int unload(void)
{
	return syscall(SYS_delete_module, "hab", O_NONBLOCK) ? -errno : 0;
}

FIXTURE(module)
{
	const char *unfit;
	pid_t users[USERS];
};

static const char *unfit(void)
{
	const char *path = getenv("HAB_MODULE");

	if (geteuid())
		return "only root may load modules";
	if (access(path ? path : MODULE, R_OK))
		return "no module to load: run it in a VM, or set HAB_MODULE";
	return NULL;
}

FIXTURE_SETUP(module)
{
	self->unfit = unfit();
	if (self->unfit)
		SKIP(return, "%s", self->unfit);
	ASSERT_EQ(0, load());
	seen = mmap(NULL, sizeof(*seen), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, seen);
}

FIXTURE_TEARDOWN(module)
{
	if (!self->unfit)
		EXPECT_EQ(0, load());
}

static void start_user(struct _test_data_module *self, int index)
{
	self->users[index] = fork();
	if (!self->users[index])
		use(index);
}

/* Also the moment at which a user is killed. */
static void replace_a_user(struct _test_data_module *self)
{
	int index = 1 + rand_r(&dice) % (USERS - 1);

	kill(self->users[index], SIGKILL);
	waitpid(self->users[index], NULL, 0);
	start_user(self, index);
}

static bool enough(long gone, long wanted, long busy)
{
	return gone >= wanted && busy >= wanted && seen->refilled && seen->library && seen->absent;
}

TEST_F_TIMEOUT(module, unloads_only_without_users_and_is_busy_otherwise, 3600)
{
	const char *cycles = getenv("HAB_CYCLES");
	long wanted = cycles ? atol(cycles) : CYCLES;
	long gone = 0, busy = 0, tries;
	int err, i, status;

	if (self->unfit)
		SKIP(return, "%s", self->unfit);
	for (i = 0; i < USERS; i++)
		start_user(self, i);
	for (tries = 0; tries < PATIENT * wanted && !enough(gone, wanted, busy); tries++) {
		err = unload();
		if (!err) {
			gone++;
			/* Sometimes a moment without the module. */
			usleep(once_in(4) ? 3000 : 0);
			ASSERT_EQ(0, load());
		} else {
			ASSERT_TRUE(err == -EAGAIN || err == -EBUSY)
			TH_LOG("unloading says %s", strerror(-err));
			busy++;
			usleep(rand_r(&dice) % 1000);
		}
		if (once_in(200))
			replace_a_user(self);
	}
	seen->stop = 1;
	for (i = 0; i < USERS; i++) {
		ASSERT_EQ(self->users[i], waitpid(self->users[i], &status, 0));
		EXPECT_EQ(0, status);
	}
	TH_LOG("gone %ld times, busy %ld times; users found it absent %lu times, opened %lu, made %lu heaps, mapped %lu, refilled %lu, %lu by the library",
	       gone, busy, (long)seen->absent, (long)seen->opened, (long)seen->made,
	       (long)seen->mapped, (long)seen->refilled, (long)seen->library);
	EXPECT_TRUE(enough(gone, wanted, busy));
	EXPECT_EQ(0, seen->odd)
	TH_LOG("%lu times, last: %s", (long)seen->odd, strerror(seen->odd_errno));
}

TEST_HARNESS_MAIN
