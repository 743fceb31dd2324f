/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * System calls of the driver for fail_test.c, each with its preparation and its undo.
 */
#ifndef FAIL_STEPS_H
#define FAIL_STEPS_H

#include <stdbool.h>
#include <stddef.h>

#include "uapi/hab.h"

#define SYSFS	"/sys/class/misc/hab/"
#define TRACING "/sys/kernel/tracing/events/hab/"
#define MODULE	"/run/hab-vm/hab.ko"

struct state;

/*
 * One system call. @prepare makes all that it needs; @act is the call; @undo undoes both. The first
 * two give 0 or a negative errno. @path, @text, @number, @protection and @flags are their
 * arguments.
 * @once: the call works only once, even if it fails; @books: it moves memory.
 */
struct step {
	const char *name;
	int (*prepare)(struct state *state);
	int (*act)(struct state *state);
	void (*undo)(struct state *state);
	const char *path;
	const char *text;
	unsigned long number;
	int protection;
	int flags;
	bool once;
	bool books;
};

/*
 * The state of a step. @done: the call succeeded; @fd: the device; @target: another file; @memory:
 * a mapping of @bytes; @child: of a fork; @taken: bytes of the arena that the caller has, and
 * @refill the last of them.
 */
struct state {
	const struct step *step;
	bool done;
	int fd;
	int target;
	void *memory;
	size_t bytes;
	int child;
	__u64 taken;
	struct hab_ioc_create create;
	struct hab_ioc_refill refill;
};

extern const struct step fail_steps[];
extern const size_t fail_nr_steps;
extern const struct step fail_load_step; /* the module is not loaded */

/* 0 or a negative errno. */
int fail_write_file(const char *path, const char *text);
/* -1 if it cannot be read. */
long fail_read_number(const char *path);
/* Of the module; 0 or a negative errno. */
int fail_unload(void);
/* 0 if all memory that the caller does not have is free or waste; else a negative errno. */
int fail_check_books(const struct state *state);

#endif /* FAIL_STEPS_H */
