// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Where the collector is, and whether its socket is to be trusted.
 *
 * A try after the first may be in another root or by another user than the process began with, and
 * the folder of the socket may be gone: so another user could have made what is found at the path
 * now. Such a try takes a socket of root's or of the process's own user's.
 *
 * System calls are made directly: the C library's functions may be interposed by the program, and
 * end a thread that is to be cancelled.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "wire/sampling.h"
#include "wire/interval.h"
#include "inside/connect.h"
#include "inside/descriptor.h"

/*
 * A collector may have more programs than it has accepted. A try then waits in the kernel's queue
 * for its turn, since others may connect in a loop, and a short program has no later try.
 */
#define WAIT_US 10000

/* At the first try. Children by fork() have it, too. */
static struct {
	u64 device, inode;
} first_root;

/* What the environment says. It is read once: a program may clear it before it forks. */
static struct {
	struct sockaddr_un address;
	long filters;
	u32 share; /* this and the next two as in struct hab_channel */
	u64 interval_least;
	u64 interval_begin;
	u64 secret[2];
	bool has_secret;
	bool is_default; /* the address is */
} settings;

static void set_path(const char *path)
{
	settings.address.sun_family = AF_UNIX;
	if (strlen(path) < sizeof(settings.address.sun_path))
		memcpy(settings.address.sun_path, path, strlen(path));
	settings.is_default = !strcmp(path, HAB_CHANNEL_SOCKET);
}

/* Of habrun, for samples before the collector has taken the channel. */
static void read_interval(void)
{
	const char *interval = secure_getenv("HAB_INTERVAL"), *rate = secure_getenv("HAB_RATE");
	char *end;

	if (interval) {
		settings.interval_least = strtoull(interval, &end, 10);
		if (*end == ':') {
			settings.interval_begin = settings.interval_least;
			settings.interval_least = strtoull(end + 1, NULL, 10);
		}
	}
	if (rate)
		settings.share = (u32)min(max(hab_share_of_rate(strtoull(rate, NULL, 10)), 1ull),
					  (u64)HAB_CHANNEL_SHARE_ALL);
}

void hab_connect_read_settings(void)
{
	const char *path = secure_getenv("HAB_CHANNEL"), *filters = secure_getenv("HAB_FILTERS");
	const char *secret = secure_getenv(HAB_CHANNEL_SECRET);

	set_path(path ? path : HAB_CHANNEL_SOCKET);
	settings.filters = filters ? atol(filters) : 0;
	read_interval();
	settings.has_secret = secret;
	hab_channel_read_secret(secret, settings.secret);
}

void hab_connect_use_settings(const char *path, u64 interval_least, u64 interval_begin)
{
	memset(&settings, 0, sizeof(settings));
	set_path(path ? path : "");
	settings.has_secret = !path;
	settings.interval_least = interval_least;
	settings.interval_begin = interval_begin;
}

/* HAB_CHANNEL_OF_USER. False: there is no room for it. */
static bool address_of_user(struct sockaddr_un *address)
{
	unsigned int user = (unsigned int)syscall(SYS_geteuid), rest = user;
	size_t at = strlen(settings.address.sun_path) + 1;

	for (; rest >= 10; rest /= 10)
		at++;
	if (at + 1 >= sizeof(address->sun_path))
		return false;
	*address = settings.address;
	do
		address->sun_path[at--] = (char)('0' + user % 10);
	while (user /= 10);
	address->sun_path[at] = '.';
	return true;
}

static bool connect_now(int fd, const struct sockaddr_un *address)
{
	return !syscall(SYS_connect, fd, address, sizeof(*address));
}

/* In a folder where anybody may make a socket, another user may have made this one. */
static bool is_of(int fd, uid_t user)
{
	struct ucred peer = { 0 };
	socklen_t length = sizeof(peer);

	return !syscall(SYS_getsockopt, fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) &&
	       (!peer.uid || peer.uid == user);
}

static bool is_roots(int fd)
{
	return is_of(fd, 0);
}

/* Only root makes files in the default's folder. */
static bool is_trusted(int fd, bool is_later)
{
	return !is_later || settings.is_default || is_of(fd, (uid_t)syscall(SYS_geteuid));
}

bool hab_connect_is_in_first_root(void)
{
	struct stat root;

	if (syscall(SYS_newfstatat, AT_FDCWD, "/", &root, 0))
		return false;
	if (!first_root.inode) {
		first_root.device = root.st_dev;
		first_root.inode = root.st_ino;
	}
	return root.st_dev == first_root.device && root.st_ino == first_root.inode;
}

bool hab_connect_has_one_user(void)
{
	uid_t real, effective, saved;

	return !syscall(SYS_getresuid, &real, &effective, &saved) && real == effective &&
	       effective == saved;
}

static bool connect_in_turn(int fd, const struct sockaddr_un *address)
{
	static const struct timeval wait = { .tv_usec = WAIT_US };

	return !syscall(SYS_setsockopt, fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof(wait)) &&
	       !syscall(SYS_fcntl, fd, F_SETFL, 0) && connect_now(fd, address);
}

/* -1: errno says why. */
static int connect_to(const struct sockaddr_un *address)
{
	int fd = hab_descriptor_move((int)syscall(SYS_socket, AF_UNIX,
						  SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
	int err;

	if (fd < 0 || connect_now(fd, address) ||
	    (errno == EAGAIN && connect_in_turn(fd, address)))
		return fd;
	err = errno;
	syscall(SYS_close, fd);
	errno = err;
	return -1;
}

static enum hab_obstacle obstacle_of(int err)
{
	switch (err) {
	case EAGAIN:
	case EINTR:
		return HAB_OBSTACLE_BUSY;
	case ENOENT:
	case ECONNREFUSED:
	case EMFILE:
	case ENFILE:
		return settings.has_secret ? HAB_OBSTACLE_LASTS : HAB_OBSTACLE_ABSENT;
	default:
		return HAB_OBSTACLE_LASTS;
	}
}

int hab_connect(bool is_later, enum hab_obstacle *obstacle)
{
	struct sockaddr_un own;
	int fd = -1;

	if (address_of_user(&own))
		fd = connect_to(&own);
	if (fd >= 0 && !is_roots(fd)) {
		syscall(SYS_close, fd);
		fd = -1;
	}
	if (fd < 0)
		fd = connect_to(&settings.address);
	if (fd < 0) {
		*obstacle = obstacle_of(errno);
	} else if (!is_trusted(fd, is_later)) {
		/* It may go again. */
		*obstacle = HAB_OBSTACLE_ABSENT;
		syscall(SYS_close, fd);
		fd = -1;
	}
	return fd;
}

bool hab_connect_may_write_file(void)
{
	struct rlimit limit;

	/* Beyond its limit of file sizes a process gets SIGXFSZ. */
	return !getrlimit(RLIMIT_FSIZE, &limit) &&
	       (limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= HAB_CHANNEL_BYTES);
}

/*
 * vm.overcommit_memory is 2: the kernel may refuse a page of a file without a disk when it is
 * touched first, and ends the process by SIGBUS.
 */
static bool pages_may_be_refused;

bool hab_connect_may_free_pages(void)
{
	return !pages_may_be_refused;
}

static void look_at_overcommit(void)
{
	char mode = 0;
	int fd = hab_descriptor_move((int)syscall(
		SYS_openat, AT_FDCWD, "/proc/sys/vm/overcommit_memory", O_RDONLY | O_CLOEXEC));

	if (fd < 0)
		return;
	if (syscall(SYS_read, fd, &mode, 1) == 1)
		pages_may_be_refused = mode == '2';
	syscall(SYS_close, fd);
}

struct hab_channel *hab_connect_make_channel(int *fd)
{
	struct hab_channel *channel;
	int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

	*fd = hab_descriptor_move(
		(int)syscall(SYS_memfd_create, HAB_CHANNEL_FILE, MFD_CLOEXEC | MFD_ALLOW_SEALING));
	if (*fd < 0)
		return NULL;
	if (syscall(SYS_ftruncate, *fd, HAB_CHANNEL_BYTES) ||
	    syscall(SYS_fcntl, *fd, F_ADD_SEALS, seals))
		return NULL;
	look_at_overcommit();
	if (pages_may_be_refused && syscall(SYS_fallocate, *fd, 0, 0, HAB_CHANNEL_BYTES))
		return NULL;
	channel = mmap(NULL, HAB_CHANNEL_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
	if (channel == MAP_FAILED)
		return NULL;
	channel->magic = HAB_CHANNEL_MAGIC;
	channel->version = HAB_CHANNEL_VERSION;
	channel->share = settings.share;
	channel->interval_least = settings.interval_least;
	channel->interval_begin = settings.interval_begin;
	return channel;
}

bool hab_connect_send_channel(int socket, int fd)
{
	struct hab_channel_hello hello = { HAB_CHANNEL_MAGIC,
					   HAB_CHANNEL_VERSION,
					   { settings.secret[0], settings.secret[1] } };
	struct iovec part = { &hello, sizeof(hello) };
	union {
		struct cmsghdr head;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = { .bytes = { 0 } };
	struct msghdr message = { .msg_iov = &part,
				  .msg_iovlen = 1,
				  .msg_control = &control,
				  .msg_controllen = sizeof(control) };

	control.head.cmsg_len = CMSG_LEN(sizeof(int));
	control.head.cmsg_level = SOL_SOCKET;
	control.head.cmsg_type = SCM_RIGHTS;
	memcpy(CMSG_DATA(&control.head), &fd, sizeof(fd));
	return syscall(SYS_sendmsg, socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT) == sizeof(hello);
}

bool hab_connect_has_settings(void)
{
	return settings.address.sun_family;
}

bool hab_connect_has_address(void)
{
	return settings.address.sun_path[0];
}

bool hab_connect_has_secret(void)
{
	return settings.has_secret;
}

long hab_connect_filters(void)
{
	return settings.filters;
}
