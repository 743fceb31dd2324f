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
#include <stdint.h>

#include "daemon/symbols/worker_keeper.h"
#include "daemon/symbols/worker_messages.h"

enum worker_result {
	WORKER_REPLIED,
	WORKER_LATE,	/* no reply by the deadline: the worker is replaced */
	WORKER_ENDED,	/* the worker has ended, and is replaced */
	WORKER_MISSING, /* there is no keeper any more */
};

struct worker;

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

#endif /* HABD_WORKER_H */
