// SPDX-License-Identifier: GPL-2.0-only
/*
 * Closes descriptors that programs have sent.
 *
 * The hard case: close() waits as long as the sender likes, for example for a file of the sender's
 * own file system or for a socket that lingers. The last close() of a connection does so, too, if
 * descriptors are queued in it. So a worker has them first, then this process closes its own, and
 * then the worker closes the last ones. A worker that does not finish in time is replaced.
 *
 * The keeper starts no further worker while too many do not end. Then no new program connects, and
 * the rings of those that have connected are read as before.
 */
#include "daemon/channels/closer.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "daemon/shared/util.h"
#include "daemon/symbols/worker.h"

#define ROOM	    1024u
#define DEADLINE_NS 200000000ull
#define MEMORY	    ((rlim_t)1 << 28)

/* A request: its descriptors are kept, or those kept are closed. */
struct request {
	struct worker_head head;
	bool closes;
};

struct closer {
	struct worker *worker;
	uint64_t deadline_ns; /* of the request that the worker has; 0: none */
	unsigned int nr;
	int fds[ROOM];
};

static void work(int requests)
{
	static int kept[ROOM];
	unsigned int nr = 0, i;
	struct request request;
	struct worker_message message = { .data = &request };

	for (;;) {
		message.size = sizeof(request);
		if (!worker_receive(requests, &message))
			return;
		for (i = 0; i < message.nr_files && nr < ROOM; i++)
			kept[nr++] = message.files[i];
		if (!request.closes)
			continue;
		while (nr)
			close(kept[--nr]);
		message.nr_files = 0;
		if (!worker_send(requests, &message))
			return;
	}
}

struct closer *closer_new(void)
{
	static const struct worker_kind kind = { .name = "hab-closer",
						 .work = work,
						 .memory = MEMORY };
	struct closer *closer = xcalloc(1, sizeof(*closer));

	closer->worker = worker_new(&kind);
	if (closer->worker)
		return closer;
	free(closer);
	return NULL;
}

void closer_free(struct closer *closer)
{
	unsigned int i;

	if (!closer)
		return;
	closer_flush(closer);
	for (i = 0; i < closer->nr; i++)
		close(closer->fds[i]);
	worker_free(closer->worker);
	free(closer);
}

void closer_add(struct closer *closer, int fd)
{
	if (closer->nr < ROOM)
		closer->fds[closer->nr++] = fd;
	else
		say_verbose("a descriptor of a program stays open");
}

bool closer_has_room(const struct closer *closer)
{
	/* Those of a message, its connection, and another that is refused. */
	return closer->nr + MESSAGE_FILES_MAX + 2 <= ROOM;
}

static bool is_ready(struct closer *closer)
{
	struct request reply;
	struct worker_message message = { .data = &reply, .size = sizeof(reply) };

	if (closer->deadline_ns) {
		if (!worker_has_message(closer->worker) &&
		    clock_monotonic_ns() < closer->deadline_ns)
			return false;
		if (worker_reply(closer->worker, &message, closer->deadline_ns) == WORKER_REPLIED)
			worker_close_files(&message);
		closer->deadline_ns = 0;
	}
	return worker_is_ready(closer->worker);
}

/* False: the worker is missing. */
static bool send_some(struct closer *closer, bool closes)
{
	struct request request = { .closes = closes };
	struct worker_message message = { .data = &request, .size = sizeof(request) };

	while (!closes && message.nr_files < WORKER_FILES_MAX && message.nr_files < closer->nr) {
		message.files[message.nr_files] = closer->fds[closer->nr - 1 - message.nr_files];
		message.nr_files++;
	}
	if (worker_request(closer->worker, &message) != WORKER_REPLIED)
		return false;
	closer->nr -= message.nr_files;
	/* The message keeps them open. */
	worker_close_files(&message);
	return true;
}

bool closer_flush(struct closer *closer)
{
	if (!closer->nr)
		return closer->deadline_ns && !is_ready(closer);
	if (!is_ready(closer))
		return true;
	while (closer->nr)
		if (!send_some(closer, false))
			return true;
	if (send_some(closer, true))
		closer->deadline_ns = clock_monotonic_ns() + DEADLINE_NS;
	return true;
}
