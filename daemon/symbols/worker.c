// SPDX-License-Identifier: GPL-2.0-only
/*
 * habd's side of the processes that read users' files.
 *
 * The hard case is a hostile file. Reading it can end the process that reads, or can take forever:
 * a file system of a user's own answers when that user likes, and until it answers not even SIGKILL
 * ends the reader. So a worker that does not reply in time is killed and not waited for: the keeper
 * starts the next one. It keeps a limited number of those that do not end.
 */
#include "daemon/symbols/worker.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/arithmetic.h"
#include "daemon/shared/util.h"

#define REPLACE_NS   1000000000ull
#define SLICE_NS     50000000ull   /* between two looks at a worker that has not replied */
#define DELAY_MAX_NS 2000000000ull /* by which a deadline is put off */
#define DROPPED_MAX  4096

struct worker {
	const struct worker_kind *kind;
	int socket;
	pid_t pid; /* the worker's; 0: not known yet */
	uint64_t delay_ns;
	int control; /* a byte: replace the worker. Closed: end */
	pid_t keeper;
	uint64_t requests;
	bool replacing; /* the keeper has not yet said that it did */
	bool missing;
	int status;
};

struct worker *worker_new(const struct worker_kind *kind)
{
	struct worker *worker;
	pid_t habd = getpid();
	int ends[2], control[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends)) {
		say("%s has no socket: %s", kind->name, strerror(errno));
		return NULL;
	}
	if (pipe2(control, O_CLOEXEC)) {
		say("%s has no pipe: %s", kind->name, strerror(errno));
		close(ends[0]);
		close(ends[1]);
		return NULL;
	}
	worker = xcalloc(1, sizeof(*worker));
	worker->kind = kind;
	worker->socket = ends[0];
	worker->control = control[1];
	worker->keeper = fork();
	if (!worker->keeper)
		worker_keep(kind, habd, ends[1], control[0]);
	close(ends[1]);
	close(control[0]);
	if (worker->keeper > 0)
		return worker;
	say("%s could not be started: %s", kind->name, strerror(errno));
	worker_free(worker);
	return NULL;
}

void worker_free(struct worker *worker)
{
	if (!worker)
		return;
	close(worker->socket);
	close(worker->control);
	if (worker->keeper > 0)
		TEMP_FAILURE_RETRY(waitpid(worker->keeper, NULL, 0));
	free(worker);
}

static enum worker_result set_missing(struct worker *worker)
{
	if (!worker->missing)
		say("%s has ended: its work is not done until this program is started again",
		    worker->kind->name);
	worker->missing = true;
	return WORKER_MISSING;
}

/* The next message, if there is one; false if it is malformed or the other end is closed. */
static bool take_message(struct worker *worker, struct worker_message *message)
{
	const struct worker_head *head = message->data;

	if (!worker_receive_now(worker->socket, message))
		return false;
	if (!head->number && !head->ended)
		worker->pid = head->status;
	return true;
}

/* The events of the socket; 0 if there is none until @deadline_ns. */
static int wait_for_message(const struct worker *worker, uint64_t deadline_ns)
{
	struct pollfd ready = { .fd = worker->socket, .events = POLLIN };
	uint64_t now;
	int result;

	do {
		now = clock_monotonic_ns();
		result = poll(&ready, 1,
			      deadline_ns > now ? (int)((deadline_ns - now) / 1000000) + 1 : 0);
	} while (result < 0 && errno == EINTR);
	return result > 0 ? ready.revents : 0;
}

/* Drops messages until the keeper's, which says that the worker is replaced, or @deadline_ns. */
static void wait_for_replacement(struct worker *worker, uint64_t deadline_ns)
{
	struct worker_head head;
	struct worker_message message = { .data = &head };
	unsigned int dropped;
	int events;

	for (dropped = 0; worker->replacing && dropped < DROPPED_MAX; dropped++) {
		events = wait_for_message(worker, deadline_ns);
		if (!events)
			return;
		message.size = sizeof(head);
		if (take_message(worker, &message) && head.ended)
			worker->replacing = false;
		else if (events & POLLHUP)
			return;
		worker_close_files(&message);
	}
}

static enum worker_result replace(struct worker *worker)
{
	if (write(worker->control, "", 1) != 1)
		return set_missing(worker);
	worker->pid = 0;
	worker->replacing = true;
	wait_for_replacement(worker, clock_monotonic_ns() + REPLACE_NS);
	return WORKER_LATE;
}

/* A worker may have ended between two requests, for want of memory. */
static void drop_old_messages(struct worker *worker)
{
	struct worker_head head;
	struct worker_message message = { .data = &head };
	unsigned int dropped;

	for (dropped = 0; dropped < DROPPED_MAX && wait_for_message(worker, 0); dropped++) {
		message.size = sizeof(head);
		take_message(worker, &message);
		worker_close_files(&message);
	}
}

bool worker_has_message(const struct worker *worker)
{
	return wait_for_message(worker, 0);
}

bool worker_is_ready(struct worker *worker)
{
	wait_for_replacement(worker, 0);
	return !worker->replacing || worker->missing;
}

enum worker_result worker_request(struct worker *worker, struct worker_message *message)
{
	struct worker_head *head = message->data;

	if (!worker || worker->missing)
		return WORKER_MISSING;
	if (!worker_is_ready(worker))
		return WORKER_LATE;
	drop_old_messages(worker);
	worker->delay_ns = 0;
	*head = (struct worker_head){ .number = ++worker->requests };
	return worker_send(worker->socket, message) ? WORKER_REPLIED : set_missing(worker);
}

/* State of the worker, and the time for which it has run. False: not known. */
static bool read_state(const struct worker *worker, char *state, uint64_t *run_ns)
{
	char path[40];
	FILE *file;
	bool known = false;

	snprintf(path, sizeof(path), "/proc/%d/stat", worker->pid);
	file = worker->pid ? fopen(path, "re") : NULL;
	if (!file)
		return false;
	known = fscanf(file, "%*d (%*[^)]) %c", state) == 1;
	fclose(file);
	snprintf(path, sizeof(path), "/proc/%d/schedstat", worker->pid);
	file = fopen(path, "re");
	known = known && file && fscanf(file, "%" SCNu64, run_ns) == 1;
	if (file)
		fclose(file);
	return known;
}

/* True if the worker could have run since *run_ns, which is brought up to date, and did not. */
static bool waits_for_cpu(const struct worker *worker, uint64_t *run_ns)
{
	uint64_t before = *run_ns;
	char state;

	return read_state(worker, &state, run_ns) && state == 'R' &&
	       *run_ns - before < SLICE_NS / 2;
}

enum worker_result worker_reply(struct worker *worker, struct worker_message *message,
				uint64_t deadline_ns)
{
	const struct worker_head *head = message->data;
	uint64_t end_ns = deadline_ns, run_ns = 0, now;
	size_t room = message->size;

	for (;;) {
		now = clock_monotonic_ns();
		if (wait_for_message(worker, min(now + SLICE_NS, end_ns))) {
			message->size = room;
			/* A worker that a file has taken over may send anything. */
			if (!take_message(worker, message))
				break;
			if (head->ended) {
				worker_close_files(message);
				worker->status = head->status;
				return WORKER_ENDED;
			}
			if (head->number == worker->requests)
				return WORKER_REPLIED;
			worker_close_files(message);
			continue;
		}
		/* A machine that is busy is not the file's fault. */
		if (waits_for_cpu(worker, &run_ns) && worker->delay_ns < DELAY_MAX_NS) {
			worker->delay_ns += SLICE_NS;
			end_ns += SLICE_NS;
		}
		if (clock_monotonic_ns() >= end_ns)
			break;
	}
	return replace(worker);
}

uint64_t worker_delay_ns(const struct worker *worker)
{
	return worker->delay_ns;
}

const char *worker_end_text(const struct worker *worker)
{
	static _Thread_local char text[80];

	if (WIFSIGNALED(worker->status))
		snprintf(text, sizeof(text), "%s", strsignal(WTERMSIG(worker->status)));
	else
		snprintf(text, sizeof(text), "status %d", WEXITSTATUS(worker->status));
	return text;
}

bool worker_was_killed(const struct worker *worker)
{
	return WIFSIGNALED(worker->status) && WTERMSIG(worker->status) == SIGKILL;
}
