// SPDX-License-Identifier: GPL-2.0-only
/*
 * The owner of a process. The kernel part has the same rule (module/owners.c, bpf/current.h); here
 * the namespaces are asked for their parents, which is done as long as the process surely runs.
 */
#include "daemon/habd/broker/owner_lookup.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/nsfs.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "wire/owner.h"
#include "daemon/habd/parts/access.h"
#include "daemon/shared/util.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77 /* since Linux 6.5 */
#endif

#define NOBODY 65534u

static FILE *open_of(uint32_t pid, const char *name)
{
	char path[48];

	snprintf(path, sizeof(path), "/proc/%u/%s", pid, name);
	return fopen(path, "re");
}

/* The real group: the effective one may be that of a program with more rights. */
static gid_t group_of(uint32_t pid)
{
	unsigned int group = NOBODY;
	char groups[64];

	if (process_status(pid, "Gid", groups, sizeof(groups)))
		sscanf(groups, "%u", &group);
	return group;
}

/* What user or group 0 of the namespace is outside. */
static unsigned int mapped_root(uint32_t pid, const char *map)
{
	unsigned int inside, outside, count, found = NOBODY;
	FILE *file = open_of(pid, map);

	while (file && fscanf(file, "%u %u %u", &inside, &outside, &count) == 3)
		if (!inside)
			found = outside;
	if (file)
		fclose(file);
	return found;
}

/* True for the namespace of this program. */
static bool is_own(int space)
{
	static struct stat own;
	struct stat status;

	if (!own.st_ino && stat("/proc/self/ns/user", &own))
		return true;
	return !fstat(space, &status) && status.st_ino == own.st_ino &&
	       status.st_dev == own.st_dev;
}

/*
 * The outermost one below this program's that has @space, which is closed. -1: none, it is that; or
 * @space is -1.
 */
static int outermost(int space)
{
	int parent;

	if (space < 0)
		return -1;
	if (is_own(space)) {
		close(space);
		return -1;
	}
	while ((parent = ioctl(space, NS_GET_PARENT)) >= 0) {
		if (is_own(parent)) {
			close(parent);
			break;
		}
		close(space);
		space = parent;
	}
	return space;
}

static int namespace_of(uint32_t pid)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/%u/ns/user", pid);
	return open(path, O_RDONLY | O_CLOEXEC);
}

/* The owner by @space, one that outermost() has returned. */
static uint64_t owner_of_namespace(int space, uid_t uid)
{
	struct stat status;
	uid_t maker;

	if (space < 0)
		return uid;
	if (!ioctl(space, NS_GET_OWNER_UID, &maker) && maker)
		return maker;
	return fstat(space, &status) ? uid : HAB_OWNER_NAMESPACE + status.st_ino;
}

/* False: it has ended, or its number is another's now. */
static bool namespace_rights(uint32_t pid, struct owner_id *id)
{
	int space = outermost(namespace_of(pid)), again;

	id->uid = mapped_root(pid, "uid_map");
	id->gid = mapped_root(pid, "gid_map");
	id->space = space;
	again = outermost(namespace_of(pid));
	if (space >= 0 && owner_of_namespace(space, NOBODY) == id->number &&
	    owner_of_namespace(again, NOBODY) == id->number && id->uid != NOBODY) {
		close(again);
		return true;
	}
	if (space >= 0)
		close(space);
	if (again >= 0)
		close(again);
	return false;
}

bool owner_rights(uint64_t owner, uint32_t pid, struct owner_id *id)
{
	*id = (struct owner_id){ .number = owner, .uid = (uid_t)owner, .space = -1 };
	if (hab_owner_is_namespace(owner))
		return namespace_rights(pid, id);
	id->gid = owner ? group_of(pid) : 0;
	/* None of the user's processes is known. */
	if (id->gid == NOBODY)
		access_knows(id->uid, &id->gid);
	return true;
}

/*
 * A process may connect in a loop. Its number cannot be another's within so short a time: all other
 * numbers come first.
 */
#define KNOWN	 64
#define KNOWN_NS 10000000ull

static struct known {
	pid_t pid;
	uid_t uid;
	uint64_t owner;
	uint64_t end_ns;
} known[KNOWN];

bool owner_of_connection(int fd, uint64_t *owner, uint32_t *pid)
{
	struct ucred peer = { 0 };
	socklen_t length = sizeof(peer), pidfd_length = sizeof(int);
	int pidfd = -1, space = -1;
	struct known *before;
	bool found = false;

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length))
		return false;
	*owner = peer.uid;
	*pid = (uint32_t)peer.pid;
	if (peer.pid <= 0)
		return false;
	before = &known[peer.pid % KNOWN];
	if (before->pid == peer.pid && before->uid == peer.uid && clock_monotonic_ns() < before->end_ns) {
		*owner = before->owner;
		return true;
	}
	if (getsockopt(fd, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &pidfd_length))
		pidfd = errno == ENOPROTOOPT ? (int)syscall(SYS_pidfd_open, peer.pid, 0) : -1;
	if (pidfd >= 0)
		space = namespace_of(*pid);
	if (space >= 0) {
		space = outermost(space);
		*owner = owner_of_namespace(space, peer.uid);
		if (space >= 0)
			close(space);
		/* Else this may have been of another process with its number. */
		found = !process_has_ended(pidfd);
		if (!found)
			*owner = peer.uid;
	}
	if (pidfd >= 0)
		close(pidfd);
	if (found)
		*before = (struct known){ peer.pid, peer.uid, *owner,
					  clock_monotonic_ns() + KNOWN_NS };
	return found;
}
