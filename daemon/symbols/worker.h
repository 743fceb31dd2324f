/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Processes that read users' files for habd, with less privilege than habd, and with deadlines.
 *
 *	habd ---- keeper: starts a worker, waits for its end, reports it, starts the next
 *	     \___ worker: answers requests over a socket, with descriptors if need be
 */
#ifndef HABD_WORKER_H
#define HABD_WORKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/capability.h>
#include <sys/resource.h>

/* The user that workers run as; without it an unused id. */
#define WORKER_USER	 "hab-reader"
#define WORKER_FILES_MAX 128u /* descriptors of a message */

/**
 * struct worker_kind - what a process is for, and what it may do
 * @name: of its processes, at most 15 characters
 * @work: answers the requests that worker_receive() takes from the socket, until that fails
 * @capabilities: what it keeps of habd's
 * @nr_capabilities: number of @capabilities
 * @memory: limit of its address space in bytes
 * @opens_files: it may open files, for reading only
 * @any_call: it may use every system call; else only those that work on its own memory and on
 *	descriptors that it has, and @opens_files'
 */
struct worker_kind {
	const char *name;
	void (*work)(int socket);
	const cap_value_t *capabilities;
	int nr_capabilities;
	rlim_t memory;
	bool opens_files;
	bool any_call;
};

/* The start of each message, in both directions. */
struct worker_head {
	uint64_t number; /* of the request */
	int32_t ended;	 /* set by the keeper: the worker has ended, with @status of waitpid() */
	int32_t status;
};

/* A message: worker_head is the start of its data. */
struct worker_message {
	void *data;
	size_t size; /* room of @data before worker_receive(), then the length */
	int files[WORKER_FILES_MAX];
	unsigned int nr_files;
};

enum worker_result {
	WORKER_REPLIED,
	WORKER_LATE,	/* no reply by the deadline: the worker is replaced */
	WORKER_ENDED,	/* the worker has ended, and is replaced */
	WORKER_MISSING, /* there is no keeper any more */
};

struct worker;

/* The id of WORKER_USER; an unused one if there is no such user. */
uid_t worker_user(gid_t *group);

/*
 * Starts the keeper and the first worker. Called before the program has threads, since it forks.
 * NULL after a sentence.
 */
struct worker *worker_new(const struct worker_kind *kind);
void worker_free(struct worker *worker);

/* False while a late worker is being replaced. */
bool worker_is_ready(struct worker *worker);
/* True if worker_reply() does not wait. */
bool worker_has_message(const struct worker *worker);
/*
 * Sends a request, whose number is set here. The descriptors stay the caller's. Requests of one
 * worker are made one at a time; the caller sees to that.
 */
enum worker_result worker_request(struct worker *worker, struct worker_message *message);
/*
 * Waits for a message of the reply until @deadline_ns (CLOCK_MONOTONIC), or up to two seconds
 * longer while the worker has to wait for a CPU. The caller closes the descriptors. After another
 * result than WORKER_REPLIED the request is over.
 */
enum worker_result worker_reply(struct worker *worker, struct worker_message *message,
				uint64_t deadline_ns);
/* By how much the deadlines of the last request were put off. */
uint64_t worker_delay_ns(const struct worker *worker);
/* The reason for WORKER_ENDED: "Aborted" or "status 1". Valid until the thread's next call. */
const char *worker_end_text(const struct worker *worker);
/* True: SIGKILL was the reason. */
bool worker_was_killed(const struct worker *worker);

/*
 * For both ends. False if the other end is closed, or if the message does not fit.
 * worker_receive() sets size and the descriptors, which the caller closes.
 */
bool worker_send(int socket, const struct worker_message *message);
bool worker_receive(int socket, struct worker_message *message);
void worker_close_files(struct worker_message *message);

#endif /* HABD_WORKER_H */
