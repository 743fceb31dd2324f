/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Attaching to a process that runs: a thread is started in it, which loads the preload library. For
 * the way of it see Documentation/attach.rst.
 */
#ifndef HABRUN_ATTACH_H
#define HABRUN_ATTACH_H

#include "daemon/attach/apart.h"
#include "daemon/attach/borrow.h"
#include "daemon/attach/target.h"

struct attach_options {
	const char *library; /* path of the preload library */
	const char *socket;  /* of habd, which is joined; NULL: the caller opens the channel */
	uint64_t interval_least; /* this and the next as in struct hab_channel */
	uint64_t interval_begin;
};

struct attached {
	struct target target;
	int pidfd;
	int channel; /* the memfd; -1: it has joined habd */
	int control; /* the writing end of the pipe: its close detaches */
	uint64_t memory;
	uint64_t took_ns;
	uint32_t patched;
	bool knows_in_use;
	struct borrow_result borrowed;
};

struct attempt {
	struct apart apart; /* its answer may be waited for */
	pid_t pid;
	uid_t user; /* of the caller */
	int pidfd;
	const struct attach_options *options;
};

/* Begins to attach. False after a sentence. The process goes on in any case. */
bool attach_begin(pid_t pid, const struct attach_options *options, struct attempt *attempt);
/* Waits for the end of it. False after a sentence. */
bool attach_finish(struct attempt *attempt, struct attached *attached);
/* Ends it now, with a sentence. */
void attach_give_up(struct attempt *attempt);
/* Begins and finishes. */
bool attach(pid_t pid, const struct attach_options *options, struct attached *attached);

/*
 * Detaches from all, and closes all but their channels. False after a sentence of each that has
 * ended, or is slow.
 */
bool attach_end(struct attached *attached, unsigned int nr);

/* It runs another program now: closes all but @channel. */
void attach_forget(struct attached *attached);
/* Detaches from a process that has joined habd. False after a sentence. */
bool attach_detach(pid_t pid);

#endif /* HABRUN_ATTACH_H */
