/* SPDX-License-Identifier: GPL-2.0-only */
/* The executable mappings of the watched processes. */
#ifndef HABD_PROCESSES_H
#define HABD_PROCESSES_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/collect/binaries.h"
#include "daemon/collect/interpreter_names.h"

struct process;
struct processes;

/* A process has another name now. */
struct process_renamed {
	uint32_t pid;
	uid_t user;
	char from[HAB_COMM_LEN];
	char to[HAB_COMM_LEN];
};

/* What is not to be evicted. */
struct frames_used {
	bool binaries[BINARIES_MAX];
	bool names[NAMES_MAX];
};

struct processes_counts {
	uint64_t readings;   /* of /proc/PID/maps */
	uint64_t unreadable; /* of these: nothing is known of the process; most often it had ended */
};

/* The caller of these holds the daemon's lock. */
struct processes *processes_new(struct binaries *binaries);
void processes_free(struct processes *processes);

struct processes_counts processes_counts(const struct processes *processes);

/*
 * The process @pid, of @user. Its maps are read if it is new, or if @fresh is set: it may run
 * another program now. Valid until the next call of this.
 */
struct process *processes_see(struct processes *processes, uint32_t pid, uid_t user, bool fresh);
/*
 * Makes FRAME()s of @nr frames: of an address, or of an offset in the file with a build id, in one
 * that the process has mapped, else in any. If a frame is in no mapping, the maps are read again,
 * unless they were just read. Never fails.
 */
void processes_translate(struct processes *processes, struct process *process,
			 const struct hab_frame *frames, unsigned int nr, uint64_t *translated);
/*
 * A text of the process's maps, as the process @pid, of @user, has read it itself. @adds: to what
 * it has sent before; see struct hab_record_maps. True: samples before had addresses in no mapping,
 * which stacks_translate_again() may find now.
 */
bool processes_add_text(struct processes *processes, uint32_t pid, uid_t user, const char *text,
			size_t length, bool adds);
/* What a FRAME() of BINARY_UNKNOWN of that process is by its maps of now: a stack_translate. */
uint64_t processes_translate_again(void *processes, uint32_t pid, uint64_t frame);
/*
 * The name of a process is that of its first thread. It is read when the process is first seen, a
 * second later if it had samples since, and else after ten.
 */
const char *process_name(const struct process *process);
/* The process begins to run a program: reads its name. */
void processes_begin(struct processes *processes, uint32_t pid, uid_t user);
/* Its first thread says so. */
void processes_set_name(struct processes *processes, struct process *process, const char *name);
/* Of a process that may be in no table; clean. */
void processes_name(struct processes *processes, uint32_t pid, char name[HAB_COMM_LEN]);
/*
 * Those that run the same program under another name, since the last call. Returns how many; the
 * caller frees *renamed.
 */
unsigned int processes_take_renamed(struct processes *processes, struct process_renamed **renamed);
/* A name, as the process @pid, of @user, has sent it. False: the record is malformed. */
bool processes_add_name(struct processes *processes, uint32_t pid, uid_t user,
			const struct hab_record_name *record, size_t size);
/* True if a stack of the process had an id without a name since the last call. */
bool processes_take_lack(struct processes *processes, uint32_t pid);
/* The process has ended, after it has sent a text. */
void processes_end(struct processes *processes, uint32_t pid);

/* Reads maps that are due, and drops the processes that have not been seen for a while. */
void processes_tidy(struct processes *processes);
/* Sets @used for each binary that a process has mapped, and each name that it may use again. */
void processes_mark(const struct processes *processes, struct frames_used *used);
/* Sets @mapped for each binary that a process has mapped that still runs. */
void processes_mark_mapped(const struct processes *processes, bool mapped[BINARIES_MAX]);

#endif /* HABD_PROCESSES_H */
