/* SPDX-License-Identifier: GPL-2.0-only */
/* Whether a process has the preload library, or its program can have it, and why not. */
#ifndef HABD_PROGRAM_H
#define HABD_PROGRAM_H

#include <stdbool.h>
#include <stdint.h>

enum program_kind {
	PROGRAM_LOADS, /* its loader loads the preload library */
	PROGRAM_STATIC,
	PROGRAM_SETUID,
	PROGRAM_GO,
	PROGRAM_32_BITS,
	PROGRAM_OTHER_LIBC,
	PROGRAM_OWN_ALLOCATOR, /* in its executable, which comes before all libraries */
	PROGRAM_UNKNOWN,       /* it is no ELF file, or cannot be read */
	PROGRAM_NOT_PRELOADED, /* this and the next two: of program_not_connected() alone */
	PROGRAM_OTHER_ROOT,
	PROGRAM_FILTERED,
	PROGRAM_KINDS,
};

/* Reads the file @fd of the program. */
enum program_kind program_kind(int fd);
/* The program that @pid runs, to read; -1: it has ended, or this user may not. */
int program_open(uint32_t pid);
/* The same kind, but a set-uid bit counts only if @pid has others' rights by it. */
enum program_kind program_kind_as_run(enum program_kind kind, uint32_t pid);
/* What is mapped into a process; nothing if that cannot be read. */
struct program_maps {
	bool preload; /* the preload library */
	bool libhab;
	bool libc; /* glibc, which comes after the preload library */
	bool channel; /* the process, or its parent, has connected */
};
struct program_maps program_maps(uint32_t pid);
/*
 * Why the process, which has not connected, will not: PROGRAM_LOADS if nothing says so. @filters:
 * of system calls that a process may have.
 */
enum program_kind program_not_connected(uint32_t pid, enum program_kind kind,
					const struct program_maps *maps, uint64_t filters);
/* Why it is not seen, as a sentence without its end, and what to do; "" for PROGRAM_LOADS. */
const char *program_why(enum program_kind kind);
const char *program_next(enum program_kind kind);

#endif /* HABD_PROGRAM_H */
