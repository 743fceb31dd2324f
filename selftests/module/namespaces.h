/* SPDX-License-Identifier: GPL-2.0-only */
/* Processes in user namespaces, by system calls only. Their maker is root of the machine. */
#ifndef HAB_SELFTESTS_NAMESPACES_H
#define HAB_SELFTESTS_NAMESPACES_H

#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "selftests/module/raw.h"

/* @uid, in the user namespace of process @in if not 0, and in @below more, one inside another. */
struct who {
	uid_t uid;
	pid_t in;
	int below;
};

static inline int write_map(const char *process, const char *which, const char *map)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%s/%s", process, which);
	return write_text(path, map);
}

/* In a user namespace of its own, with its own ids only, as any user may make it. */
static inline int go_below(void)
{
	char uids[32], gids[32];

	snprintf(uids, sizeof(uids), "0 %u 1\n", geteuid());
	snprintf(gids, sizeof(gids), "0 %u 1\n", getegid());
	/* After setuid() the files in /proc are root's. */
	if (prctl(PR_SET_DUMPABLE, 1) || unshare(CLONE_NEWUSER) ||
	    write_map("self", "setgroups", "deny") || write_map("self", "uid_map", uids) ||
	    write_map("self", "gid_map", gids))
		return -errno;
	return 0;
}

static inline int become(struct who who)
{
	char path[64];
	int fd, err = 0;

	if (who.in) {
		snprintf(path, sizeof(path), "/proc/%d/ns/user", who.in);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd < 0 || setns(fd, CLONE_NEWUSER) || setgid(who.uid))
			return -errno;
	}
	if (setuid(who.uid))
		return -errno;
	while (!err && who.below--)
		err = go_below();
	return err;
}

/*
 * A child in a user namespace that @maker has made, and in which root maps ids, as newuidmap does
 * for a range of subordinate ids.
 */
static inline pid_t hold_namespace(uid_t maker)
{
	char process[16], byte = 0;
	int made[2];
	pid_t child;

	if (pipe2(made, O_CLOEXEC))
		return -1;
	child = fork();
	if (!child) {
		if (setuid(maker) || unshare(CLONE_NEWUSER) || write(made[1], "m", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	close(made[1]);
	snprintf(process, sizeof(process), "%d", child);
	if (read(made[0], &byte, 1) != 1 || write_map(process, "uid_map", "0 100000 10\n") ||
	    write_map(process, "gid_map", "0 100000 10\n")) {
		kill(child, SIGKILL);
		waitpid(child, NULL, 0);
		child = -1;
	}
	close(made[0]);
	return child;
}

#endif /* HAB_SELFTESTS_NAMESPACES_H */
