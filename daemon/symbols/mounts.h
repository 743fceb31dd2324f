/* SPDX-License-Identifier: GPL-2.0-only */
/* Where a file is that a process has mapped: whether its file system answers at once. */
#ifndef HABD_MOUNTS_H
#define HABD_MOUNTS_H

#include <stdbool.h>
#include <stdint.h>

/* The mounts that a process sees. */
struct mounts {
	uint32_t pid;
	bool are_roots;
	uint64_t last; /* the last one of root's that mounts_place() has found */
};

enum place {
	PLACE_TRUSTED, /* a file system of this machine: root's files are root's work */
	PLACE_LOCAL,   /* another one that answers at once */
	PLACE_OTHER,   /* the network, or a program: it may answer late or never */
};

/* @pid: a process that runs. */
void mounts_begin(struct mounts *mounts, uint32_t pid);
enum place mounts_place(struct mounts *mounts, int fd);

#endif /* HABD_MOUNTS_H */
