// SPDX-License-Identifier: GPL-2.0-only
/*
 * Takes the channel that a program sends.
 *
 * The file must be a memfd whose size is sealed: otherwise its owner could make it shorter, and a
 * read beyond its end would end this process.
 *
 * A program can free pages of the memfd. A page that this process reads afterwards is charged to
 * this process, as long as any process has the memfd. So all pages are removed at the end. A memfd
 * with a seal that forbids that is refused. Pages stay if the program may still write there, and a
 * page that it touches may be refused: then it would end by SIGBUS.
 */
#include "daemon/collect/hello.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "daemon/shared/util.h"

#define SEALS	    (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)
#define WRONG_SEALS (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE)
#define FILES_MAX   253 /* descriptors of a message, the kernel's limit */

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77 /* since Linux 6.5 */
#endif

static struct hab_channel *map(int fd)
{
	struct hab_channel *channel;
	struct stat status;
	int seals = fcntl(fd, F_GET_SEALS);

	if (seals < 0 || (seals & (SEALS | WRONG_SEALS)) != SEALS || fstat(fd, &status) ||
	    status.st_size != HAB_CHANNEL_BYTES)
		return NULL;
	channel = mmap(NULL, HAB_CHANNEL_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (channel == MAP_FAILED)
		return NULL;
	if (READ_ONCE(channel->magic) == HAB_CHANNEL_MAGIC &&
	    READ_ONCE(channel->version) == HAB_CHANNEL_VERSION)
		return channel;
	hello_unmap(channel, false);
	return NULL;
}

void hello_unmap(struct hab_channel *channel, bool runs)
{
	if (runs && shared_pages_may_be_refused())
		WRITE_ONCE(channel->magic, 0);
	else if (madvise(channel, HAB_CHANNEL_BYTES, MADV_REMOVE))
		say_verbose("pages of a channel stay: %s", strerror(errno));
	munmap(channel, HAB_CHANNEL_BYTES);
}

/* Sets the user and pid of the process that has connected. False if the kernel does not say. */
static bool read_peer(int connection, struct hello *hello)
{
	struct ucred peer;
	socklen_t length = sizeof(peer);

	/* The process id is 0 if the process is in no PID namespace below this one. */
	if (getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &length) || peer.pid <= 0)
		return false;
	hello->pid = (uint32_t)peer.pid;
	hello->user = peer.uid;
	return true;
}

/*
 * A pidfd of the process that has connected; -1: it has ended. Another process may have its number
 * since, so the number alone does not name it.
 */
static int open_peer(int connection, const struct hello *hello)
{
	struct stat status;
	socklen_t length = sizeof(int);
	char path[32];
	int fd;

	if (!getsockopt(connection, SOL_SOCKET, SO_PEERPIDFD, &fd, &length))
		return fd;
	/* A kernel before 6.5: a process of the same user can only harm that user. */
	snprintf(path, sizeof(path), "/proc/%u", hello->pid);
	if (errno != ENOPROTOOPT || stat(path, &status) || status.st_uid != hello->user)
		return -1;
	return (int)syscall(SYS_pidfd_open, (pid_t)hello->pid, 0);
}

/* The number of descriptors that came; all but the first are closed. */
static unsigned int take_files(struct msghdr *message, int *first)
{
	struct cmsghdr *part;
	unsigned int count = 0;
	size_t i, nr;
	int fd;

	for (part = CMSG_FIRSTHDR(message); part; part = CMSG_NXTHDR(message, part)) {
		if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS)
			continue;
		nr = (part->cmsg_len - CMSG_LEN(0)) / sizeof(fd);
		for (i = 0; i < nr; i++) {
			memcpy(&fd, CMSG_DATA(part) + i * sizeof(fd), sizeof(fd));
			if (count++)
				close(fd);
			else
				*first = fd;
		}
	}
	return count;
}

static bool is_right(const struct hab_channel_hello *text, const uint64_t *secret)
{
	return text->magic == HAB_CHANNEL_MAGIC && text->version == HAB_CHANNEL_VERSION &&
	       (!secret || (text->secret[0] == secret[0] && text->secret[1] == secret[1]));
}

enum hello_result hello_receive(int connection, const uint64_t *secret, struct hello *hello)
{
	struct hab_channel_hello text = { 0 };
	union {
		/* One is right. The kernel closes here what finds no room. */
		char bytes[CMSG_SPACE(FILES_MAX * sizeof(int))];
		struct cmsghdr align;
	} control;
	struct iovec data = { &text, sizeof(text) };
	struct msghdr message = { .msg_iov = &data,
				  .msg_iovlen = 1,
				  .msg_control = &control,
				  .msg_controllen = sizeof(control) };
	unsigned int files;
	ssize_t length;
	int fd = -1;

	length = recvmsg(connection, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	if (length < 0)
		return errno == EAGAIN || errno == EINTR ? HELLO_WAITING : HELLO_REFUSED;
	files = take_files(&message, &fd);
	if (!length && !files)
		return HELLO_CLOSED;
	*hello = (struct hello){ .pidfd = -1, .memory_fd = fd };
	if (length == sizeof(text) && files == 1 && is_right(&text, secret) &&
	    read_peer(connection, hello))
		hello->channel = map(fd);
	if (hello->channel) {
		hello->pidfd = open_peer(connection, hello);
		return HELLO_COMPLETE;
	}
	if (fd >= 0)
		close(fd);
	return HELLO_REFUSED;
}

bool hello_take_over(uint32_t pid, uid_t user, const int files[2], struct hello *hello)
{
	*hello = (struct hello){ .pid = pid,
				 .user = user,
				 .memory_fd = files[0],
				 .pidfd = files[1],
				 .channel = map(files[0]),
				 .was_read = true };
	if (hello->channel && hello->pidfd >= 0)
		return true;
	if (hello->channel)
		munmap(hello->channel, HAB_CHANNEL_BYTES);
	close(files[0]);
	if (files[1] >= 0)
		close(files[1]);
	return false;
}
