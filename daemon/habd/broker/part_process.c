// SPDX-License-Identifier: GPL-2.0-only
/* Starts and ends the processes of parts. */
#include "daemon/habd/broker/part_process.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/capability.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/shared/util.h"

#define ARGUMENTS_MAX 256

static int make_memory(void)
{
	int fd = memfd_create("habd-part", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	/* Else its part could make it shorter, and a write beyond its end would end the broker. */
	if (fd >= 0 && !ftruncate(fd, (off_t)PART_MEMORY_BYTES) &&
	    (!shared_pages_may_be_refused() || !fallocate(fd, 0, 0, (off_t)PART_MEMORY_BYTES)) &&
	    !fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
		return fd;
	if (fd >= 0)
		close(fd);
	return -1;
}

/* Of root's environment a part of another user gets what it needs. */
static void __attribute__((noreturn)) run(char *const argv[], const char *kind, int program,
					  int control, int memory)
{
	static const char *const names[] = { "PATH", "DEBUGINFOD_URLS", "DEBUGINFOD_CACHE_PATH",
					     "DEBUGINFOD_TIMEOUT", "XDG_CACHE_HOME", "ASAN_OPTIONS" };
	char *arguments[ARGUMENTS_MAX], *environment[ARRAY_SIZE(names) + 1];
	unsigned int i, nr = 0;

	for (i = 0; i < ARRAY_SIZE(names); i++)
		if (getenv(names[i]))
			environment[nr++] = xformat("%s=%s", names[i], getenv(names[i]));
	environment[nr] = NULL;
	arguments[0] = argv[0];
	arguments[1] = xformat("--part=%s", kind);
	for (i = 1; argv[i] && i < ARGUMENTS_MAX - 2; i++)
		arguments[i + 1] = argv[i];
	arguments[i + 1] = NULL;
	/* Not onto each other. */
	control = fcntl(control, F_DUPFD_CLOEXEC, 10);
	memory = fcntl(memory, F_DUPFD_CLOEXEC, 10);
	program = fcntl(program, F_DUPFD_CLOEXEC, 10);
	if (dup2(control, PART_CONTROL_FD) == PART_CONTROL_FD &&
	    dup2(memory, PART_MEMORY_FD) == PART_MEMORY_FD)
		fexecve(program, arguments, environment);
	_exit(127);
}

bool part_start(struct part *part, char *const argv[], const char *kind,
		const struct part_config *config)
{
	int pair[2] = { -1, -1 }, program = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	bool good;

	memset(part, 0, sizeof(*part));
	part->control = -1;
	part->memory_fd = make_memory();
	if (part->memory_fd >= 0)
		part->memory = part_memory_map(part->memory_fd);
	good = program >= 0 && part->memory &&
	       !socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair);
	part->control = pair[0];
	if (good && part_send_config(part->control, config)) {
		part->pid = fork();
		if (!part->pid)
			run(argv, kind, program, pair[1], part->memory_fd);
	}
	if (pair[1] >= 0)
		close(pair[1]);
	if (program >= 0)
		close(program);
	if (part->pid > 0)
		return true;
	say("a part of habd could not be started: %s", strerror(errno));
	part->pid = 0;
	part_forget(part);
	return false;
}

void part_forget(struct part *part)
{
	if (part->control >= 0)
		close(part->control);
	if (part->memory_fd >= 0)
		close(part->memory_fd);
	part_memory_unmap(part->memory);
	memset(part, 0, sizeof(*part));
	part->control = part->memory_fd = -1;
}

bool part_write(struct part *part, const void *record, uint32_t bytes)
{
	void *to = hab_ring_reserve(part->memory, bytes, PART_RING_BYTES);

	if (!to)
		return false;
	memcpy(to, record, bytes);
	hab_channel_commit(to);
	return true;
}

static int compare(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

/* @keep is sorted. */
static void close_others(const int *keep, unsigned int nr)
{
	unsigned int first = 0, i;

	for (i = 0; i < nr; i++) {
		if ((unsigned int)keep[i] > first)
			close_range(first, (unsigned int)keep[i] - 1, 0);
		first = (unsigned int)keep[i] + 1;
	}
	close_range(first, ~0u, 0);
}

/*
 * Its end closes them, which may take for ever. So it has nothing else of the broker's: no lock, no
 * listening socket and no end of another part's socket. It keeps root's uid, so that users cannot
 * stop it, and has no other right of root's.
 */
static void __attribute__((noreturn)) wait_to_close(int *keep, unsigned int nr, int ready)
{
	cap_t none = cap_init();
	char byte;

	qsort(keep, nr, sizeof(*keep), compare);
	close_others(keep, nr);
	if (none)
		cap_set_proc(none);
	/* Until the broker has closed its own: the last close is the one that waits. */
	_exit(read(ready, &byte, 1) < 0);
}

bool part_dispose(const int *fds, unsigned int nr)
{
	int ready[2], keep[PART_DISPOSED_MAX + 1];
	unsigned int i;
	pid_t pid;

	if (pipe2(ready, O_CLOEXEC))
		return false;
	memcpy(keep, fds, nr * sizeof(*fds));
	keep[nr] = ready[0];
	pid = fork();
	if (!pid)
		wait_to_close(keep, nr + 1, ready[0]);
	for (i = 0; pid > 0 && i < nr; i++)
		close(fds[i]);
	close(ready[0]);
	close(ready[1]);
	return pid > 0;
}
