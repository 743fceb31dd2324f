// SPDX-License-Identifier: GPL-2.0-only
/*
 * The strategy of the adversary with a file system of its own. Arguments: uid, gid, a folder, and
 * the programs whose build ids are forged. It begins as root, mounts with allow_other, as
 * fusermount does for every user where /etc/fuse.conf has user_allow_other, and is the user then.
 * Without allow_other the kernel lets no other user, root included, into the file system.
 *
 * All files claim to be root's. "stuck" answers its owner at once, and any other user's open or
 * read after 100 s: from 120 s on the kernel's log would report the task that waits.
 * "forged-N" answers each with an ELF file that has the build id of program N.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/fuse.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "adversary.h"
#include "channel.h"

#define STUCK	      2u /* number of the file; the root's is 1 */
#define FORGED	      3u /* and the following */
#define FORGED_MAX    8u
#define SYMBOLS	      640
#define SYMBOL_BYTES  4096ul
#define MAPPED	      (ELF_FIRST + SYMBOLS * SYMBOL_BYTES)
#define REQUEST_BYTES (1u << 17)
#define HELD_MAX      1024
#define HELD_SECONDS  100

static int device;
static int contents[FORGED_MAX]; /* memfds */
static unsigned int nr_forged;
static uint32_t own_uid;
static bool holds_flush; /* of other users, for ever */

static void answer(const struct fuse_in_header *in, int error, const void *data, size_t size)
{
	static char reply[REQUEST_BYTES + sizeof(struct fuse_out_header)];
	struct fuse_out_header head = { (uint32_t)(sizeof(head) + (error ? 0 : size)), -error,
					in->unique };

	memcpy(reply, &head, sizeof(head));
	if (!error && size)
		memcpy(reply + sizeof(head), data, size);
	/* A request that was interrupted is gone: ENOENT. */
	if (write(device, reply, head.len) != (ssize_t)head.len)
		adversary_add(COUNT_FAILED, 1);
}

static struct fuse_attr attributes(uint64_t node)
{
	return (struct fuse_attr){ .ino = node,
				   .size = node == 1 ? 0 : 16 << 20,
				   .mode = node == 1 ? S_IFDIR | 0755 : S_IFREG | 0755,
				   .nlink = 1,
				   .blksize = 4096 };
}

static void look_up(const struct fuse_in_header *in, const char *name)
{
	struct fuse_entry_out entry = { .entry_valid = 3600, .attr_valid = 3600 };
	unsigned int number;

	if (!strcmp(name, "stuck"))
		entry.nodeid = STUCK;
	else if (sscanf(name, "forged-%u", &number) == 1 && number < nr_forged)
		entry.nodeid = FORGED + number;
	entry.attr = attributes(entry.nodeid);
	answer(in, entry.nodeid ? 0 : ENOENT, &entry, sizeof(entry));
}

static void read_file(const struct fuse_in_header *in, const struct fuse_read_in *wanted)
{
	static char data[REQUEST_BYTES];
	ssize_t size = 0;

	if (in->nodeid >= FORGED && in->nodeid < FORGED + nr_forged && wanted->size <= sizeof(data))
		size = pread(contents[in->nodeid - FORGED], data, wanted->size,
			     (off_t)wanted->offset);
	answer(in, size < 0 ? EIO : 0, data, size < 0 ? 0 : (size_t)size);
}

static void initialize(const struct fuse_in_header *in, const struct fuse_init_in *wanted)
{
	struct fuse_init_out out = { .major = FUSE_KERNEL_VERSION,
				     .minor = FUSE_KERNEL_MINOR_VERSION,
				     .max_readahead = wanted->max_readahead,
				     .max_write = 4096,
				     .max_background = 64,
				     .congestion_threshold = 48,
				     .time_gran = 1 };

	answer(in, 0, &out, sizeof(out));
}

/* Requests that wait for their answer, the oldest first. */
static struct {
	struct fuse_in_header in;
	time_t since;
} held[HELD_MAX];
static unsigned int nr_held;

static void hold(const struct fuse_in_header *in)
{
	if (nr_held == HELD_MAX) {
		answer(in, EIO, NULL, 0);
		return;
	}
	held[nr_held].in = *in;
	held[nr_held++].since = time(NULL);
}

static void answer_held(void)
{
	while (nr_held && time(NULL) - held[0].since >= HELD_SECONDS) {
		answer(&held[0].in, EIO, NULL, 0);
		memmove(&held[0], &held[1], --nr_held * sizeof(held[0]));
	}
}

static void serve_one(const struct fuse_in_header *in, const void *data)
{
	struct fuse_attr_out attr = { .attr_valid = 3600, .attr = attributes(in->nodeid) };
	struct fuse_open_out opened = { .fh = in->nodeid };

	switch (in->opcode) {
	case FUSE_INIT:
		initialize(in, data);
		return;
	case FUSE_FORGET:
	case FUSE_BATCH_FORGET:
	case FUSE_INTERRUPT:
		return;
	case FUSE_LOOKUP:
		look_up(in, data);
		return;
	case FUSE_GETATTR:
		answer(in, 0, &attr, sizeof(attr));
		return;
	case FUSE_OPEN:
	case FUSE_READ:
		if (in->uid != own_uid)
			adversary_add(COUNT_EFFECTS, 1);
		if (in->nodeid == STUCK && in->uid != own_uid)
			hold(in);
		else if (in->opcode == FUSE_OPEN)
			answer(in, 0, &opened, sizeof(opened));
		else
			read_file(in, data);
		return;
	case FUSE_FLUSH:
		if (holds_flush && in->uid != own_uid) {
			adversary_add(COUNT_EFFECTS, 1);
			return;
		}
		answer(in, 0, NULL, 0);
		return;
	case FUSE_RELEASE:
		answer(in, 0, NULL, 0);
		return;
	default:
		answer(in, ENOSYS, NULL, 0);
	}
}

static uint64_t mapped[FORGED_MAX + 1];
static unsigned int nr_mapped;

static uint64_t draw_mapped(void)
{
	uint64_t random = adversary_random();

	return mapped[random % nr_mapped] + (random >> 32) % MAPPED;
}

static void map_file(const char *folder, const char *name)
{
	char path[4096];
	void *at;
	int fd;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	at = fd < 0 ? MAP_FAILED : mmap(NULL, MAPPED, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
	if (fd >= 0)
		close(fd);
	if (at == MAP_FAILED)
		adversary_add(COUNT_FAILED, 1);
	else
		mapped[nr_mapped++] = (uint64_t)(uintptr_t)at;
}

/* The process whose maps have the files. One has the stuck file, too. */
static void allocate(const char *folder, bool stuck)
{
	char name[32];
	unsigned int i;

	for (i = 0; i < nr_forged; i++) {
		snprintf(name, sizeof(name), "forged-%u", i);
		map_file(folder, name);
	}
	if (stuck)
		map_file(folder, "stuck");
	while (nr_mapped && adversary_runs()) {
		heap_announce(20, 16, draw_mapped);
		adversary_add(COUNT_OPERATIONS, 1);
		adversary_sleep_ms(200);
	}
}

static pid_t fork_allocator(const char *folder, bool stuck)
{
	pid_t child = fork();

	if (child)
		return child;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	close(device);
	allocate(folder, stuck);
	_exit(0);
}

static void forge(const char *path)
{
	struct elf_shape shape = { .nr_symbols = SYMBOLS, .symbol_bytes = SYMBOL_BYTES };
	int fd = memfd_create("forged", MFD_CLOEXEC);

	if (elf_read_build_id(path, shape.build_id) && elf_write(fd, &shape))
		contents[nr_forged++] = fd;
}

static void mount_and_drop(uint32_t uid, uint32_t gid, const char *folder)
{
	gid_t groups[32];
	int nr_groups = getgroups(32, groups);
	char options[256];

	device = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	if (device < 0)
		adversary_skip("/dev/fuse: %s", strerror(errno));
	snprintf(options, sizeof(options),
		 "fd=%d,rootmode=40000,user_id=%u,group_id=%u,allow_other", device, uid, gid);
	if (mount("adversary", folder, "fuse", MS_NOSUID | MS_NODEV, options))
		adversary_skip("mount: %s", strerror(errno));
	if (nr_groups < 0 || setgroups((size_t)nr_groups, groups) || setresgid(gid, gid, gid) ||
	    setresuid(uid, uid, uid))
		adversary_skip("cannot become the user: %s", strerror(errno));
	own_uid = uid;
}

static void serve_requests(void)
{
	static char request[REQUEST_BYTES + 4096];
	ssize_t size;

	while (adversary_runs()) {
		answer_held();
		size = read(device, request, sizeof(request));
		if (size >= (ssize_t)sizeof(struct fuse_in_header))
			serve_one((struct fuse_in_header *)request,
				  request + sizeof(struct fuse_in_header));
		else if (size < 0 && errno == EAGAIN)
			adversary_sleep_ms(2);
	}
}

void strategy_fuse(void)
{
	const char *folder = adversary_argument(2);
	pid_t children[2];
	unsigned int i;

	if (!folder || geteuid())
		adversary_skip("it needs root for the mount, and uid, gid and a folder");
	mount_and_drop((uint32_t)atoi(adversary_argument(0)), (uint32_t)atoi(adversary_argument(1)),
		       folder);
	for (i = 3; adversary_argument(i) && nr_forged < FORGED_MAX; i++)
		forge(adversary_argument(i));
	fcntl(device, F_SETFL, O_NONBLOCK);
	/* The kernel's first request is answered before any other process can wait for it. */
	children[0] = fork_allocator(folder, false);
	children[1] = fork_allocator(folder, true);
	serve_requests();
	for (i = 0; i < 2; i++)
		kill(children[i], SIGKILL);
	/* Ends the connection: requests that wait fail. The children may wait, too. */
	close(device);
	while (wait(NULL) > 0)
		;
}

/* --- a flush that is never answered --------------------------------------------------- */

#define FOLDER	    "/mnt"
#define SENT	    16 /* of a message */
#define CONNECTIONS 12

/* The descriptors, and connections that carry them unread, are habd's alone afterwards. */
static void send_stuck(void)
{
	int fd = open(FOLDER "/stuck", O_RDONLY | O_CLOEXEC), fds[SENT], connection;
	unsigned int i;

	for (i = 0; i < SENT; i++)
		fds[i] = fd;
	for (i = 0; fd >= 0 && i < CONNECTIONS && adversary_runs(); i++) {
		connection = channel_connect(adversary_argument(1));
		if (connection >= 0 && channel_send(connection, fds, i % 2 ? SENT : 1))
			adversary_add(COUNT_OPERATIONS, 1);
		else
			adversary_add(COUNT_FAILED, 1);
		if (connection >= 0)
			close(connection);
		adversary_sleep_ms(100);
	}
}

/*
 * A file of a file system in namespaces of the user's own, which anybody may make, is sent to the
 * channel's socket. Each close() of it waits for an answer. Arguments: the device of FUSE, which on
 * most machines each user may open, and the socket.
 */
void strategy_flush(void)
{
	char options[128];
	pid_t child;

	if (!adversary_argument(1))
		return;
	if (!adversary_new_namespaces())
		adversary_skip("no user namespace can be made: %s", strerror(errno));
	device = open(adversary_argument(0), O_RDWR | O_CLOEXEC | O_NONBLOCK);
	if (device < 0)
		adversary_skip("%s: %s", adversary_argument(0), strerror(errno));
	own_uid = getuid();
	holds_flush = true;
	snprintf(options, sizeof(options), "fd=%d,rootmode=40000,user_id=%u,group_id=%u", device,
		 own_uid, getgid());
	if (mount("adversary", FOLDER, "fuse", MS_NOSUID | MS_NODEV, options))
		adversary_skip("mount: %s", strerror(errno));
	child = fork();
	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(device);
		send_stuck();
		_exit(0);
	}
	serve_requests();
	/* All waits end with the device: so the child's, too. */
	close(device);
	while (wait(NULL) > 0)
		;
}
