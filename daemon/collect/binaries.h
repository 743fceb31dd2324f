/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The binaries that stacks run through. A file is its device, inode, size, time of change and build
 * id together: some tools give all programs one build id, and a stripped copy has that of its
 * original.
 */
#ifndef HABD_BINARIES_H
#define HABD_BINARIES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/profile/types.h"
#include "daemon/shared/limits.h"

#define BINARIES_MAX	    LIMIT_BINARIES
struct names;

/* A mapped file. */
struct binary_file {
	int fd;			      /* -1: there is none */
	unsigned int build_id_length; /* 0: the file has none */
	uint8_t build_id[HAB_BUILD_ID_LEN];
	dev_t device;
	ino_t inode;
	off_t size; /* this and the next: 0: it is a file that grows */
	struct timespec changed;
	bool executable; /* the main program of a process */
	bool remote;	 /* a server answers for its file system, and may not */
};

struct binary {
	struct binary_file file;
	char *closed; /* where the file is, since it was closed; NULL: it was not */
	/* No process had it mapped at the last binaries_close_unmapped(); under the lock. */
	bool unmapped;
	uint64_t serial; /* of no other binary, ever: numbers are used again */
	char *path;
	const char *name; /* last part of path */
	bool fixed;	  /* a name that stays in the table */
	atomic_uint references;
};

/* The caller of these holds the daemon's lock. */
struct binaries *binaries_new(void);
void binaries_free(struct binaries *binaries);
/* Of the frames of BINARY_NAMES. */
struct names *binaries_names(struct binaries *binaries);

/*
 * The binary of a file that a process has mapped; @file->fd is taken over. @path is the file's name
 * as the process sees it. BINARY_UNKNOWN if the table is full.
 */
unsigned int binaries_add_file(struct binaries *binaries, const struct binary_file *file,
			       const char *path);
/* A binary without a file: "[vdso]" and the like. */
unsigned int binaries_add_name(struct binaries *binaries, const char *name);
/*
 * The file with that build id, which is padded with zeros, of several the one at @path; if none was
 * seen yet, a binary without a file is added. @path: where it was, or NULL.
 */
unsigned int binaries_find_id(struct binaries *binaries, const uint8_t *build_id,
			      unsigned int length, const char *path);
/*
 * Valid until the next call of these, or with a reference until that is given back. Then it does
 * not change: what is new of it is in another one with its number and serial number.
 */
struct binary *binaries_get(struct binaries *binaries, unsigned int number);

/*
 * Closes the files that no process has mapped, now and at the call before, so that their file
 * systems can be unmounted. @mapped: those that one has. What no path leads to any more stays open,
 * as a deleted file; so does a perf map, which has no time of change to know it by. It waits for no
 * server: so most files on network file systems stay open, too.
 */
void binaries_close_unmapped(struct binaries *binaries, const bool mapped[BINARIES_MAX]);
/* True if the binary with that serial number has its file open. */
bool binaries_have_open(const struct binaries *binaries, uint64_t serial);
/* Opens the file of a binary that was closed. -1: another file is there now. Any thread. */
int binary_open(const struct binary *binary);

/* True if binaries_evict() should be called: the table is nearly full. */
bool binaries_are_crowded(void);
/* Frees the binaries whose numbers are not in @used. Returns how many. */
unsigned int binaries_evict(struct binaries *binaries, const bool used[BINARIES_MAX]);

/* Any thread may call these. The last reference closes the file. */
void binary_ref(struct binary *binary);
void binary_unref(struct binary *binary);

#endif /* HABD_BINARIES_H */
