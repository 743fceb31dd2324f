// SPDX-License-Identifier: GPL-2.0-only
/*
 * Descriptors in slots, and processes: fork, clone with shared memory, passing descriptors through
 * the bus.
 *
 * After clone() with shared memory parent and child share one thread's storage, so the parent waits
 * (CLONE_VFORK) while its other threads continue.
 */
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "uapi/hab.h"
#include "fuzz.h"

#define DEVICE "/dev/hab"

/* Puts the descriptor into a slot and closes the old one. */
static int keep(struct fuzz_thread *thread, int fd)
{
	int err = 0;

	if (fd < 0)
		return errno;
	if (dup3(fd, FUZZ_FIRST_FD + fuzz_slot(thread), O_CLOEXEC) < 0)
		err = errno;
	close(fd);
	return err;
}

int fuzz_do_open(struct fuzz_thread *thread)
{
	static const int odd[] = { O_RDONLY, O_WRONLY, O_PATH, O_RDWR | O_DIRECT,
				   O_RDWR | O_TRUNC };
	int flags = fuzz_once_in(thread, 4) ? odd[fuzz_roll(thread) % 5] : O_RDWR;

	return keep(thread, open(DEVICE, flags | O_CLOEXEC));
}

/* A valid heap with its areas mapped, in place of the slot's old one. */
int fuzz_do_fresh_heap(struct fuzz_thread *thread)
{
	struct hab_ioc_create create = {
		.size = sizeof(create),
		.arena_bytes = FUZZ_CELL_BYTES / 4,
		.nr_levels = 1 + fuzz_roll(thread) % 2,
		.levels = { { 32 << 10, HAB_DOMAIN_PACKAGE, 0 },
			    { 8 << 10, fuzz_roll(thread) % HAB_DOMAIN_KINDS, 0 } },
		.name = "fresh",
	};
	struct fuzz_heap *heap;
	int fd = open(DEVICE, O_RDWR | O_CLOEXEC);
	int slot = fuzz_slot(thread), err = 0;

	if (fd < 0)
		return errno;
	heap = &thread->heaps[slot];
	if (ioctl(fd, HAB_IOC_CREATE, &create) || dup3(fd, FUZZ_FIRST_FD + slot, O_CLOEXEC) < 0)
		err = errno;
	close(fd);
	if (err)
		return err;
	heap->arena_bytes = create.arena_bytes;
	heap->info_bytes = create.info_bytes;
	heap->words_bytes = create.words_bytes;
	err = fuzz_map(thread, slot, create.words_bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
		       HAB_MAP_WORDS);
	if (!err)
		err = fuzz_map(thread, slot, create.info_bytes, PROT_READ, MAP_SHARED,
			       HAB_MAP_INFO);
	if (!err && fuzz_once_in(thread, 2))
		err = fuzz_map(thread, slot, create.arena_bytes, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE, HAB_MAP_ARENA);
	return err;
}

int fuzz_do_close(struct fuzz_thread *thread)
{
	return fuzz_errno(close(FUZZ_FIRST_FD + fuzz_slot(thread)));
}

int fuzz_do_dup(struct fuzz_thread *thread)
{
	int fd = FUZZ_FIRST_FD + fuzz_slot(thread);

	if (fuzz_once_in(thread, 2))
		return keep(thread, dup(fd));
	return fuzz_errno(dup2(fd, FUZZ_FIRST_FD + fuzz_slot(thread)));
}

int fuzz_do_file_calls(struct fuzz_thread *thread)
{
	int fd = FUZZ_FIRST_FD + fuzz_slot(thread);
	struct pollfd polled = { .fd = fd, .events = POLLIN | POLLOUT };

	switch (fuzz_roll(thread) % 8) {
	case 0:
		return fuzz_errno(read(fd, thread->buffer, 64));
	case 1:
		return fuzz_errno(write(fd, thread->buffer, 64));
	case 2:
		return fuzz_errno(lseek(fd, 0, SEEK_END));
	case 3:
		return fuzz_errno(poll(&polled, 1, 0));
	case 4:
		return fuzz_errno(ftruncate(fd, 4096));
	case 5:
		return fuzz_errno(fallocate(fd, 3, 0, 4096));
	case 6:
		return fuzz_errno(fcntl(fd, F_SETFL, fuzz_roll(thread) % 2 ? O_ASYNC : O_APPEND));
	default:
		return fuzz_errno(fsync(fd));
	}
}

union control {
	struct cmsghdr header;
	char room[CMSG_SPACE(sizeof(int))];
};

int fuzz_do_send_fd(struct fuzz_thread *thread)
{
	union control control = { 0 };
	struct iovec piece = { "f", 1 };
	struct msghdr message = {
		.msg_iov = &piece,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control),
	};

	control.header.cmsg_level = SOL_SOCKET;
	control.header.cmsg_type = SCM_RIGHTS;
	control.header.cmsg_len = CMSG_LEN(sizeof(int));
	*(int *)CMSG_DATA(&control.header) = FUZZ_FIRST_FD + fuzz_slot(thread);
	return fuzz_errno(sendmsg(fuzz->bus[0], &message, MSG_DONTWAIT | MSG_NOSIGNAL));
}

int fuzz_do_receive_fd(struct fuzz_thread *thread)
{
	union control control = { 0 };
	char byte;
	struct iovec piece = { &byte, 1 };
	struct msghdr message = {
		.msg_iov = &piece,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control),
	};

	if (recvmsg(fuzz->bus[1], &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) < 0)
		return errno;
	if (message.msg_controllen < CMSG_LEN(sizeof(int)))
		return EMFILE;
	return keep(thread, *(int *)CMSG_DATA(&control.header));
}

static int wait_for(pid_t child)
{
	int status;

	while (waitpid(child, &status, __WALL) < 0) {
		if (errno != EINTR)
			return errno;
	}
	/* A child that was killed with its parent's generation counts as one that ended. */
	return !WIFEXITED(status) || !WEXITSTATUS(status) ? 0 : EBADMSG;
}

int fuzz_do_fork(struct fuzz_thread *thread)
{
	static char *const nothing[] = { NULL };
	pid_t child;

	if (thread->alone)
		return ENODATA;
	child = fork();
	if (child < 0)
		return errno;
	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		thread->alone = true;
		fuzz_some(thread, 30);
		if (fuzz_once_in(thread, 16))
			execve("/bin/true", (char *const[]){ "true", NULL }, nothing);
		_exit(0);
	}
	return wait_for(child);
}

static int clone_body(void *argument)
{
	struct fuzz_thread *thread = argument;

	fuzz_some(thread, 20);
	syscall(SYS_exit, 0);
	return 0;
}

int fuzz_do_clone_vm(struct fuzz_thread *thread)
{
	static __thread char stack[64 << 10] __attribute__((aligned(16)));
	int flags = CLONE_VM | CLONE_VFORK | SIGCHLD;
	pid_t child;

	if (thread->alone)
		return ENODATA;
	/* With descriptors of its own, or with those of all. */
	flags |= fuzz_once_in(thread, 2) ? CLONE_FILES : 0;
	thread->alone = true;
	child = clone(clone_body, stack + sizeof(stack), flags, thread);
	thread->alone = false;
	return child < 0 ? errno : wait_for(child);
}
