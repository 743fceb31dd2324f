// SPDX-License-Identifier: GPL-2.0-only
/* Strategies of the adversary that use the device only, and how the others use it. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "adversary.h"
#include "selftests/module/raw.h"

#define PAGE	  4096ull
#define ANNOUNCES 3   /* processes */
#define FORKS	  150 /* processes at once */
#define REFILLERS 2   /* processes */

int heap_open(uint64_t arena_bytes)
{
	struct hab_ioc_create create = {
		.size = sizeof(create),
		.arena_bytes = arena_bytes,
		.nr_levels = 1,
		.levels = { { PAGE, HAB_DOMAIN_CPU, 0 } },
		.name = "adversary",
	};
	int fd = open("/dev/hab", O_RDWR | O_CLOEXEC);

	if (fd < 0 || call(fd, HAB_IOC_CREATE, &create)) {
		adversary_add(COUNT_FAILED, 1);
		if (fd >= 0)
			close(fd);
		return -1;
	}
	adversary_add(COUNT_HEAPS, 1);
	return fd;
}

static void send_stack(int fd, uint64_t id, unsigned int nr_frames, uint64_t (*draw)(void))
{
	uint64_t frames[HAB_STACK_DEPTH];
	struct hab_ioc_stack stack = { .size = sizeof(stack),
				       .nr_frames = nr_frames,
				       .sample_id = id,
				       .frames = (uint64_t)(uintptr_t)frames };
	unsigned int i;

	for (i = 0; i < nr_frames; i++)
		frames[i] = draw();
	if (call(fd, HAB_IOC_STACK, &stack))
		adversary_add(COUNT_FAILED, 1);
}

bool heap_refill(int fd, uint64_t bytes, unsigned int nr_frames, uint64_t (*draw)(void))
{
	struct hab_ioc_refill refill = { .size = sizeof(refill),
					 .min_bytes = bytes,
					 .want_bytes = bytes };
	int err = call(fd, HAB_IOC_REFILL, &refill);

	if (err == -ENOMEM && !call(fd, HAB_IOC_RESET, NULL))
		err = call(fd, HAB_IOC_REFILL, &refill);
	if (err) {
		adversary_add(COUNT_FAILED, 1);
		return false;
	}
	adversary_add(COUNT_REFILLS, 1);
	if (!refill.sample_id)
		return true;
	adversary_add(COUNT_SAMPLED, 1);
	if (draw)
		send_stack(fd, refill.sample_id, nr_frames, draw);
	return true;
}

void heap_announce(unsigned int refills, unsigned int nr_frames, uint64_t (*draw)(void))
{
	int fd = heap_open(1 << 20);
	unsigned int i;

	if (fd < 0)
		return;
	for (i = 0; i < refills; i++)
		heap_refill(fd, PAGE, nr_frames, draw);
	close(fd);
}

static void announce(void)
{
	int fd;

	while (adversary_runs()) {
		fd = heap_open(1 << 20);
		if (fd >= 0) {
			close(fd);
			adversary_add(COUNT_OPERATIONS, 1);
		}
		usleep(1000);
	}
}

/* Announces a new heap again and again: habd reads the maps of the process each time. */
void strategy_announce(void)
{
	adversary_fork(ANNOUNCES, announce);
}

static void refill_all(void)
{
	int fd = heap_open(HAB_ARENA_MAX);

	while (fd >= 0 && adversary_runs()) {
		if (heap_refill(fd, HAB_ARENA_MAX / 2, 0, NULL) && !call(fd, HAB_IOC_RESET, NULL))
			adversary_add(COUNT_OPERATIONS, 1);
		usleep(500);
	}
}

/* Refills of 4 TiB and resets: the sums of an hour would pass 2^63. */
void strategy_refills(void)
{
	adversary_fork(REFILLERS, refill_all);
}

static void __attribute__((noreturn)) live_shortly(void)
{
	int fd;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	fd = heap_open(1 << 20);
	if (fd >= 0 && heap_refill(fd, PAGE, 0, NULL))
		adversary_add(COUNT_OPERATIONS, 1);
	usleep((useconds_t)(adversary_random() % 500000));
	_exit(0);
}

/* Processes that allocate once. */
void strategy_forks(void)
{
	unsigned int alive = 0;
	pid_t child;

	while (adversary_runs()) {
		while (alive == FORKS && wait(NULL) > 0)
			alive--;
		/* So that children differ. */
		adversary_random();
		child = fork();
		if (!child)
			live_shortly();
		if (child > 0)
			alive++;
		else
			adversary_sleep_ms(100);
		usleep(2000);
	}
	while (wait(NULL) > 0)
		;
}

#define TEXT_BYTES (256ull << 20)

static uint64_t text; /* a mapping of TEXT_BYTES */

/* Mostly in a file, and now and then nowhere. */
static uint64_t draw_frame(void)
{
	uint64_t random = adversary_random();

	return random % 16 ? text + random / 16 % TEXT_BYTES : random >> 17;
}

/* Stacks of 64 frames that are all different. */
void strategy_stacks(void)
{
	int file = memfd_create("stacks", MFD_CLOEXEC), fd = heap_open(1 << 20);
	void *mapped;

	if (file < 0 || ftruncate(file, TEXT_BYTES))
		return;
	mapped = mmap(NULL, TEXT_BYTES, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, 0);
	if (mapped == MAP_FAILED || fd < 0)
		return;
	text = (uint64_t)(uintptr_t)mapped;
	while (adversary_runs()) {
		if (heap_refill(fd, PAGE, HAB_STACK_DEPTH, draw_frame))
			adversary_add(COUNT_OPERATIONS, 1);
		usleep(3000);
	}
}
