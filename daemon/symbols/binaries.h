/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The binaries that stacks run through. Any user can write any build id into a file. So a build id
 * stands for a file only among files of root; each other file is a binary of its own.
 */
#ifndef HABD_BINARIES_H
#define HABD_BINARIES_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "bpf/records.h"

/*
 * A frame is one number, so that stacks are small and quick to compare: the binary in the upper 12
 * bits, the offset in its file in the lower 52. Binary 0 is "unknown": the offset is an address.
 * Return addresses are reduced by one, so that they lie in the call.
 */
#define FRAME_OFFSET_BITS 52
#define FRAME_OFFSET_MASK ((UINT64_C(1) << FRAME_OFFSET_BITS) - 1)
#define FRAME(binary, offset) \
	((uint64_t)(binary) << FRAME_OFFSET_BITS | ((offset)&FRAME_OFFSET_MASK))
#define FRAME_BINARY(frame) ((unsigned int)((frame) >> FRAME_OFFSET_BITS))
#define FRAME_OFFSET(frame) ((frame)&FRAME_OFFSET_MASK)

#define BINARIES_MAX	    4096
#define BINARIES_OF_USER    512 /* at most, of each user but root */
#define BINARY_UNKNOWN	    0

struct binary {
	uint8_t build_id[HAB_BUILD_ID_LEN];
	unsigned int build_id_length; /* 0: the file has none */
	int fd;			      /* -1: not seen yet, or not a file */
	dev_t device;
	ino_t inode;
	struct timespec changed;
	char *path;
	const char *name; /* last part of path */
	uid_t owner;	  /* of the file */
	bool trusted;	  /* only root can have written it */
	bool executable;  /* the main program of a process */
};

/* The caller of these holds the daemon's lock. */
struct binaries *binaries_new(void);
void binaries_free(struct binaries *binaries);

/*
 * The binary of an open file; @fd is taken over. @path is the file's name as the process sees it.
 * BINARY_UNKNOWN if the table is full, or has too many files of the file's owner.
 */
unsigned int binaries_add_file(struct binaries *binaries, int fd, const char *path);
/* A binary without a file: "[vdso]" and the like. */
unsigned int binaries_add_name(struct binaries *binaries, const char *name);
/* The file of root with that build id; if none was seen yet, a binary without a file is added. */
unsigned int binaries_find_id(struct binaries *binaries, const uint8_t *build_id);
unsigned int binaries_count(const struct binaries *binaries);
/* How often there was no room for a binary. */
uint64_t binaries_refused(const struct binaries *binaries);
/* Stays valid until binaries_free(). */
struct binary *binaries_get(struct binaries *binaries, unsigned int number);

#endif /* HABD_BINARIES_H */
