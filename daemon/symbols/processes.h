/* SPDX-License-Identifier: GPL-2.0-only */
/* The executable mappings of the watched processes. */
#ifndef HABD_PROCESSES_H
#define HABD_PROCESSES_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "daemon/symbols/binaries.h"

struct process;
struct processes;

/* A stack that waits until the maps of its process have been read. */
struct waiter {
	struct waiter *next;
};

struct processes_counts {
	uint64_t readings;   /* of maps */
	uint64_t unreadable; /* maps that could not be read: most often the process had ended */
	uint64_t late;	     /* maps that took too long to read */
	uint64_t crowded;    /* stacks that did not wait for maps: too many waited already */
};

/*
 * Called before the program has threads, since it forks. @lock: the daemon's lock, which the
 * caller of all functions but the first four holds. NULL: no maps are read, and those of
 * processes_add_text() are used.
 */
struct processes *processes_new(struct binaries *binaries, pthread_mutex_t *lock);
/* @release is called, with the lock held, once the waiter's maps have come or are given up. */
void processes_set_release(struct processes *processes,
			   void (*release)(void *context, struct process *process,
					   struct waiter *waiter),
			   void *context);
/* Starts the threads that have maps read. */
void processes_start(struct processes *processes);
/* Releases the waiters. Without the lock. */
void processes_free(struct processes *processes);

struct processes_counts processes_counts(const struct processes *processes);
unsigned int processes_waiters(const struct processes *processes);

/*
 * The process @pid, of @user. Its maps are requested if it is new, or if @fresh is set: it may run
 * another program now. Valid until the next call of this.
 */
struct process *processes_see(struct processes *processes, uint32_t pid, uid_t user, bool fresh);
/*
 * Makes FRAME()s of @nr frames: of an address, or of an offset in the file with a build id, in one
 * that the process has mapped, else in one of root. Never fails. Returns the first frame that is in
 * no mapping of the process; NULL: there is none.
 */
const struct hab_frame *processes_translate(struct processes *processes,
					    const struct process *process,
					    const struct hab_frame *frames, unsigned int nr,
					    uint64_t *translated);
/*
 * True if a stack should wait before it is translated: the maps are being read, or are requested
 * now because of @missing, if that is not NULL. Then processes_add_waiter() may follow.
 */
bool processes_should_wait(struct processes *processes, struct process *process,
			   const struct hab_frame *missing);
/* @waiter is the processes' until it is released. */
void processes_add_waiter(struct processes *processes, struct process *process,
			  struct waiter *waiter);
/*
 * A part of the text of the process's maps, as the process @pid, of @user, has read it itself.
 * @more: another part follows. Without it the maps are requested, and the text is used if the
 * process has ended by then; or they are replaced by the text, if no maps are read. It must then
 * come from a process of this program's own user.
 */
void processes_add_text(struct processes *processes, uint32_t pid, uid_t user, const char *text,
			size_t length, bool more);
/*
 * The process has ended, after it has sent a text. If it has made code at run time, its perf map is
 * looked for: processes_take_code().
 */
void processes_end(struct processes *processes, uint32_t pid);
/*
 * True if @pid, which runs and has sent a text since @since_ns (CLOCK_MONOTONIC), has exec'ed since
 * then: its memory has no channel any more.
 */
bool processes_has_exec(struct processes *processes, uint32_t pid, uint64_t since_ns);

/* An ended process whose perf map is @binary: it names the frames of BINARY_JIT. */
struct process_code {
	uint32_t pid;
	uid_t user;
	unsigned int binary;
};

/* Those since the last call. Returns how many; the caller frees *code. */
unsigned int processes_take_code(struct processes *processes, struct process_code **code);
/* Gives up maps that do not come, and drops the processes that have not been seen for a while. */
void processes_tidy(struct processes *processes);
/* Sets @used for each binary that a process has mapped. */
void processes_mark(const struct processes *processes, bool used[BINARIES_MAX]);

#endif /* HABD_PROCESSES_H */
