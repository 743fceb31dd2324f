// SPDX-License-Identifier: GPL-2.0-only
/*
 * Reads symbols in a process of its own.
 *
 * The hard case is a hostile file. Any user's program is read here; libraries for ELF and DWARF are
 * not made for hostile files, and shortening a file that is mapped ends its reader. So the reader
 * is a process without privileges, with limits of memory and time, and is killed first if memory
 * is out. A file that ends the reader has no names; nothing else is lost.
 *
 *	habd ---- monitor: starts a worker, waits for its end, reports it, starts the next
 *	     \___ worker: answers, over the same socket
 *
 * The monitor is forked before habd has threads: a fork of a process with threads cannot safely go
 * on without exec(). Both end when habd's end of the socket is closed.
 */
#include "daemon/symbols/symbol_reader.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/capability.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/symbols/symbol_file.h"
#include "daemon/shared/util.h"

#define FILES_MAX   256
#define ALL_SYMBOLS (2 * SYMBOLS_MAX) /* of all open files */
#define MEMORY_MAX  ((rlim_t)4 << 30)
#define SECONDS_MAX 30u /* for one answer, without the wait for the network */
#define PATH_BYTES  4096u

/* Answers besides enum symbol_answer. */
enum { WORKER_IS_GONE = -1, SYMBOL_TOO_MANY = -2 };

struct symbol_reader {
	int fd;
	pid_t monitor;
	uint64_t questions;
	bool reported; /* that there is no reader any more */
};

struct question {
	uint64_t number;
	uint64_t offset;
	uint64_t deadline_ns;
	unsigned int binary;
	char path[PATH_BYTES];
};

struct reply {
	uint64_t number; /* the question's */
	int answer;	 /* enum symbol_answer, or one of those above */
	int status;	 /* of waitpid(), with WORKER_IS_GONE */
	char name[SYMBOL_NAME_MAX + 1];
};

struct open_file {
	unsigned int binary;
	uint64_t used; /* ordinal of its last use; 0: free */
	struct symbol_file *file;
	bool late;	  /* its debug file did not come in time */
	uint64_t late_ns; /* the deadline that it missed */
};

struct worker {
	struct symbol_time time;
	uint64_t uses;
	struct open_file files[FILES_MAX];
	uint64_t nr_symbols; /* of all of them */
};

/* --- the worker ------------------------------------------------------------------- */

static void drop(struct worker *worker, struct open_file *file)
{
	if (file->used)
		worker->nr_symbols -= symbol_file_size(file->file);
	symbol_file_close(file->file);
	memset(file, 0, sizeof(*file));
}

/* The open file, or else a free place. */
static struct open_file *find_place(struct worker *worker, unsigned int binary)
{
	struct open_file *oldest = &worker->files[0], *file;

	for (file = worker->files; file < worker->files + FILES_MAX; file++) {
		if (file->used && file->binary == binary)
			return file;
		if (file->used < oldest->used)
			oldest = file;
	}
	drop(worker, oldest);
	return oldest;
}

/* Keeps the file that was opened last. */
static void limit_symbols(struct worker *worker)
{
	struct open_file *oldest, *file;

	while (worker->nr_symbols > ALL_SYMBOLS) {
		oldest = NULL;
		for (file = worker->files; file < worker->files + FILES_MAX; file++)
			if (file->used && (!oldest || file->used < oldest->used))
				oldest = file;
		drop(worker, oldest);
	}
}

static struct open_file *find_file(struct worker *worker, const struct question *question, int fd)
{
	struct open_file *file = find_place(worker, question->binary);
	bool is_open = file->used;

	/* With a new deadline it is tried once more. */
	if (is_open && file->late && file->late_ns != question->deadline_ns) {
		drop(worker, file);
		is_open = false;
	}
	file->used = ++worker->uses;
	if (is_open)
		return file;
	file->binary = question->binary;
	file->file = symbol_file_open(fd, question->path, &worker->time);
	worker->nr_symbols += symbol_file_size(file->file);
	limit_symbols(worker);
	return file;
}

static void answer(struct worker *worker, const struct question *question, int fd,
		   struct reply *reply)
{
	struct open_file *file;
	char *name;

	if (worker->time.deadline_ns != question->deadline_ns) {
		worker->time.deadline_ns = question->deadline_ns;
		worker->time.is_up = false;
	}
	file = find_file(worker, question, fd);
	if (symbol_file_has_too_many(file->file)) {
		reply->answer = SYMBOL_TOO_MANY;
		return;
	}
	name = symbol_file_find(file->file, question->offset);
	/* After the deadline no file waits: its debug file is late, too. */
	if (worker->time.is_up && !name && !file->late) {
		file->late = true;
		file->late_ns = question->deadline_ns;
	}
	reply->answer = name ? SYMBOL_FOUND : file->late ? SYMBOL_LATE : SYMBOL_NONE;
	if (name)
		snprintf(reply->name, sizeof(reply->name), "%s", name);
	free(name);
}

/* The length of the question; 0 if habd has ended. */
static ssize_t receive(int socket, struct question *question, int *fd)
{
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(sizeof(int))];
	} control;
	struct iovec data = { question, sizeof(*question) };
	struct msghdr message = { .msg_iov = &data,
				  .msg_iovlen = 1,
				  .msg_control = &control,
				  .msg_controllen = sizeof(control) };
	struct cmsghdr *head;
	ssize_t length;

	*fd = -1;
	length = TEMP_FAILURE_RETRY(recvmsg(socket, &message, MSG_CMSG_CLOEXEC));
	head = length > 0 ? CMSG_FIRSTHDR(&message) : NULL;
	if (head && head->cmsg_type == SCM_RIGHTS)
		memcpy(fd, CMSG_DATA(head), sizeof(*fd));
	return length;
}

static unsigned int seconds_for(const struct question *question)
{
	uint64_t now = clock_monotonic_ns();

	if (question->deadline_ns <= now)
		return SECONDS_MAX;
	return SECONDS_MAX + (unsigned int)((question->deadline_ns - now) / 1000000000);
}

static void limit_memory(void)
{
#ifndef __SANITIZE_ADDRESS__ /* its shadow is larger than any limit */
	struct rlimit limit = { MEMORY_MAX, MEMORY_MAX };

	setrlimit(RLIMIT_AS, &limit);
#endif
}

static void limit_worker(void)
{
	cap_t none = cap_init();
	int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

	/* Each limit is set even if another cannot be. */
	if (fd >= 0 && write(fd, "1000", 4) != 4)
		say_verbose("oom_score_adj: %s", strerror(errno));
	if (fd >= 0)
		close(fd);
	limit_memory();
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	if (!none || cap_set_proc(none))
		say_verbose("the reader of symbols keeps its privileges: %s", strerror(errno));
	cap_free(none);
	signal(SIGALRM, SIG_DFL);
	signal(SIGBUS, SIG_DFL);
	signal(SIGSEGV, SIG_DFL);
}

static void __attribute__((noreturn)) work(int socket)
{
	static struct worker worker;
	static struct question question;
	struct reply reply;
	ssize_t length;
	int fd;

	limit_worker();
	while ((length = receive(socket, &question, &fd)) > 0) {
		memset(&reply, 0, sizeof(reply));
		reply.number = question.number;
		question.path[sizeof(question.path) - 1] = 0;
		/* A longer time ends the worker. */
		alarm(seconds_for(&question));
		if (fd >= 0)
			answer(&worker, &question, fd, &reply);
		alarm(0);
		if (fd >= 0)
			close(fd);
		if (send(socket, &reply, sizeof(reply), MSG_NOSIGNAL) < 0)
			break;
	}
	_exit(0);
}

/* --- the monitor ------------------------------------------------------------------- */

static void __attribute__((noreturn)) keep(int socket)
{
	struct reply reply = { .answer = WORKER_IS_GONE };
	pid_t worker;

	/* These signals are for habd, which then closes the socket. */
	signal(SIGTERM, SIG_IGN);
	signal(SIGINT, SIG_IGN);
	prctl(PR_SET_NAME, "habd-symbols", 0, 0, 0);
	for (;;) {
		worker = fork();
		if (!worker) {
			prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
			work(socket);
		}
		if (worker < 0)
			_exit(1);
		TEMP_FAILURE_RETRY(waitpid(worker, &reply.status, 0));
		/* It ends by itself only if habd has ended. */
		if (WIFEXITED(reply.status) && !WEXITSTATUS(reply.status))
			_exit(0);
		if (send(socket, &reply, sizeof(reply), MSG_NOSIGNAL) < 0)
			_exit(0);
	}
}

struct symbol_reader *symbol_reader_new(void)
{
	struct symbol_reader *reader;
	pid_t habd = getpid();
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends)) {
		say("the reader of symbols has no socket: %s: functions have no names",
		    strerror(errno));
		return NULL;
	}
	reader = xcalloc(1, sizeof(*reader));
	reader->fd = ends[0];
	reader->monitor = fork();
	if (!reader->monitor) {
		prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
		close(ends[0]);
		if (getppid() != habd)
			_exit(0);
		keep(ends[1]);
	}
	close(ends[1]);
	if (reader->monitor > 0)
		return reader;
	say("the reader of symbols could not be started: %s: functions have no names",
	    strerror(errno));
	close(ends[0]);
	free(reader);
	return NULL;
}

void symbol_reader_free(struct symbol_reader *reader)
{
	if (!reader)
		return;
	close(reader->fd);
	TEMP_FAILURE_RETRY(waitpid(reader->monitor, NULL, 0));
	free(reader);
}

/* --- habd's side ------------------------------------------------------------------ */

static bool send_question(int socket, const struct question *question, int fd)
{
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(sizeof(int))];
	} control = { 0 };
	struct iovec data = { (void *)question,
			      offsetof(struct question, path) + strlen(question->path) + 1 };
	struct msghdr message = { .msg_iov = &data,
				  .msg_iovlen = 1,
				  .msg_control = &control,
				  .msg_controllen = sizeof(control) };
	struct cmsghdr *head = CMSG_FIRSTHDR(&message);

	head->cmsg_level = SOL_SOCKET;
	head->cmsg_type = SCM_RIGHTS;
	head->cmsg_len = CMSG_LEN(sizeof(fd));
	memcpy(CMSG_DATA(head), &fd, sizeof(fd));
	return TEMP_FAILURE_RETRY(sendmsg(socket, &message, MSG_NOSIGNAL)) > 0;
}

/* Replies of a worker that ended between two questions, for want of memory. */
static void drop_old_replies(int socket)
{
	struct reply reply;

	while (recv(socket, &reply, sizeof(reply), MSG_DONTWAIT) > 0)
		;
}

static bool receive_reply(int socket, uint64_t number, struct reply *reply)
{
	ssize_t length;

	do {
		length = TEMP_FAILURE_RETRY(recv(socket, reply, sizeof(*reply), 0));
	} while (length > 0 && reply->answer != WORKER_IS_GONE && reply->number != number);
	reply->name[sizeof(reply->name) - 1] = 0;
	return length == sizeof(*reply);
}

static void say_gone(const char *path, int status)
{
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
		say("%s: its symbols took longer than %u s to read: it has no names", path,
		    SECONDS_MAX);
	else if (WIFSIGNALED(status))
		say("%s: its symbols ended their reader (%s): it has no names", path,
		    strsignal(WTERMSIG(status)));
	else
		say("%s: its symbols ended their reader (status %d): it has no names", path,
		    WEXITSTATUS(status));
}

enum symbol_answer symbol_reader_request(struct symbol_reader *reader, unsigned int binary, int fd,
					 const char *path, uint64_t offset, uint64_t deadline_ns,
					 char name[SYMBOL_NAME_MAX + 1])
{
	struct question question = { .number = reader ? ++reader->questions : 0,
				     .offset = offset,
				     .deadline_ns = deadline_ns,
				     .binary = binary };
	struct reply reply;

	if (!reader)
		return SYMBOL_UNREADABLE;
	snprintf(question.path, sizeof(question.path), "%s", path);
	drop_old_replies(reader->fd);
	if (!send_question(reader->fd, &question, fd) ||
	    !receive_reply(reader->fd, question.number, &reply)) {
		if (!reader->reported)
			say("the reader of symbols has ended: functions have no names until habd "
			    "is started again");
		reader->reported = true;
		return SYMBOL_UNREADABLE;
	}
	if (reply.answer == WORKER_IS_GONE) {
		say_gone(path, reply.status);
		return SYMBOL_UNREADABLE;
	}
	if (reply.answer == SYMBOL_TOO_MANY) {
		say("%s: it has more than %u symbols: it has no names", path, SYMBOLS_MAX);
		return SYMBOL_UNREADABLE;
	}
	memcpy(name, reply.name, sizeof(reply.name));
	return (enum symbol_answer)reply.answer;
}
