// SPDX-License-Identifier: GPL-2.0-only
/* Strategies of the adversary with files that habd finds through a process's mappings. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "adversary.h"
#include "channel.h"

#define PAGE	     4096ul
#define LARGE_FILES  20
#define LARGE_BYTES  (8ul << 20)
#define PINNED_MS    2500 /* until the process with the files ends */
#define ANNOUNCED    4	  /* samples before habd is given time */
#define ANNOUNCED_MS 300

/* Samples of these places, again and again, so that habd looks at the maps. */
static void announce(struct hab_channel *channel, const uint64_t *places, unsigned int nr,
		     unsigned int ms)
{
	struct channel_sample sample = { .bytes = 1 << 20, .nr_addresses = 1 };
	unsigned int i, waited;

	for (waited = 0; waited < ms && adversary_runs(); waited += ANNOUNCED_MS) {
		for (i = 0; i < ANNOUNCED * nr; i++) {
			sample.addresses[0] = places[i % nr] + 8 + i / nr;
			if (channel_put(channel, &sample))
				adversary_add(COUNT_OPERATIONS, 1);
		}
		adversary_sleep_ms(ANNOUNCED_MS);
	}
}

/* --- large files -------------------------------------------------------------------------- */

/* Pages of the file, which is in memory; 0: it could not be made. */
static uint64_t map_large(void)
{
	struct elf_shape shape = { .nr_symbols = 1, .symbol_bytes = 16 };
	int fd = memfd_create("large", MFD_CLOEXEC);
	void *text = MAP_FAILED;
	unsigned int i;

	for (i = 0; i < sizeof(shape.build_id); i++)
		shape.build_id[i] = (uint8_t)adversary_random();
	if (fd >= 0 && elf_write(fd, &shape) && !fallocate(fd, 0, 0, (off_t)LARGE_BYTES))
		text = mmap(NULL, PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
	if (fd >= 0)
		close(fd);
	return text == MAP_FAILED ? 0 : (uint64_t)(uintptr_t)text;
}

static void pin(void)
{
	struct hab_channel *channel = channel_open(adversary_argument(0));
	uint64_t places[LARGE_FILES];
	unsigned int nr = 0, i;

	for (i = 0; i < LARGE_FILES; i++) {
		places[nr] = map_large();
		nr += places[nr] != 0;
	}
	if (channel && nr)
		announce(channel, places, nr, PINNED_MS);
}

/*
 * A process maps large files of a file system in memory, and ends: so their memory is free again,
 * but for what habd keeps open. Argument: the channel's socket.
 */
void strategy_pinned(void)
{
	if (!adversary_argument(0))
		return;
	adversary_fork(1, pin);
	while (adversary_runs())
		adversary_sleep_ms(100);
}

/* --- bound files -------------------------------------------------------------------------- */

static bool bind_perf_map(int file)
{
	char from[64], to[64];
	int fd;

	/* One that any user may make: in a namespace of the own, others keep theirs. */
	if (mount("adversary", "/tmp", "tmpfs", 0, NULL))
		return false;
	snprintf(from, sizeof(from), "/proc/self/fd/%d", file);
	snprintf(to, sizeof(to), "/tmp/perf-%d.map", getpid());
	fd = open(to, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	if (fd < 0)
		return false;
	close(fd);
	return !mount(from, to, NULL, MS_BIND, NULL);
}

static const char *bound; /* path of the file */

static void bind_and_announce(void)
{
	void *code = mmap(NULL, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t place = (uint64_t)(uintptr_t)code;
	struct hab_channel *channel;
	int file;

	if (!adversary_new_namespaces())
		adversary_skip("no user namespace can be made: %s", strerror(errno));
	channel = channel_open(adversary_argument(0));
	/* Its mount must be one of this namespace. */
	file = open(bound, O_PATH | O_CLOEXEC);
	if (!channel || file < 0 || code == MAP_FAILED || !bind_perf_map(file)) {
		adversary_add(COUNT_FAILED, 1);
		return;
	}
	announce(channel, &place, 1, 60000);
}

/*
 * Processes whose perf map is, by a bind mount, one of root's files that they may not open.
 * Arguments: the channel's socket, and these files.
 */
void strategy_bound_files(void)
{
	unsigned int i;
	pid_t child;

	for (i = 1; adversary_argument(i); i++) {
		bound = adversary_argument(i);
		child = fork();
		if (child)
			continue;
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		bind_and_announce();
		_exit(0);
	}
	while (wait(NULL) > 0)
		;
}

/* --- page faults -------------------------------------------------------------------------- */

#define FAULTING 4
#define CHAIN	 60u /* frames */

/* A frame as code with frame pointers has it. */
struct fake_frame {
	struct fake_frame *next;
	uint64_t returns;
};

/* The stack that the kernel walks then is the fake one. */
static void touch_from(const struct fake_frame *chain, volatile char *page)
{
#ifdef __x86_64__
	__asm__ volatile("push %%rbp\n"
			 "mov %0, %%rbp\n"
			 "movb $1, (%1)\n"
			 "pop %%rbp\n"
			 :
			 : "r"(chain), "r"(page)
			 : "memory");
#else
	(void)chain;
	*page = 1;
#endif
}

/* Pages that are touched, each from a stack of its own, and given back. */
static void fault(void)
{
	struct fake_frame chain[CHAIN] = { 0 };
	char *memory = mmap(NULL, LARGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			    -1, 0);
	unsigned int i;
	size_t at;

	for (i = 0; i + 1 < CHAIN; i++)
		chain[i].next = &chain[i + 1];
	while (memory != MAP_FAILED && adversary_runs()) {
		for (i = 0; i < CHAIN; i++)
			chain[i].returns = adversary_random() >> 17;
		for (at = 0; at < LARGE_BYTES; at += PAGE)
			touch_from(chain, memory + at);
		madvise(memory, LARGE_BYTES, MADV_DONTNEED);
		adversary_add(COUNT_OPERATIONS, LARGE_BYTES / PAGE);
	}
}

void strategy_faults(void)
{
	adversary_fork(FAULTING, fault);
}
