// SPDX-License-Identifier: GPL-2.0-only
/*
 * Processes that read users' files.
 *
 * The hard case is a hostile file. Reading it can end the process that reads, or can take forever:
 * a file system of a user's own answers when that user likes, and until it answers not even SIGKILL
 * ends the reader. So a worker that does not reply in time is killed and not waited for: the keeper
 * starts the next one. It keeps at most ABANDONED_MAX of those that do not end.
 *
 * The keeper is forked before habd has threads: a fork of a process with threads cannot safely go
 * on without exec(). It and its workers have a user id of their own, and no more capabilities than
 * the kind of worker needs; workers have only the system calls that reading takes. Both end when
 * habd ends.
 */
#include "daemon/symbols/worker.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <inttypes.h>
#include <poll.h>
#include <pwd.h>
#include <seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/arithmetic.h"
#include "daemon/shared/util.h"

#define ABANDONED_MAX  16
#define REPLACE_NS     1000000000ull
#define SLICE_NS       50000000ull   /* between two looks at a worker that has not replied */
#define DELAY_MAX_NS   2000000000ull /* by which a deadline is put off */
#define DROPPED_MAX    4096
#define RESTART_PAUSE  10 /* ms, so that a worker that ends at once takes little time */
#define UNUSED_ID_HIGH 65532
#define UNUSED_ID_LOW  65500

enum { SOCKET_FD = 3, CONTROL_FD, FIRST_OTHER_FD };

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

/* --- messages ----------------------------------------------------------------------- */

union control {
	struct cmsghdr head;
	char room[CMSG_SPACE(WORKER_FILES_MAX * sizeof(int))];
};

bool worker_send(int socket, const struct worker_message *message)
{
	union control control = { 0 };
	struct iovec data = { message->data, message->size };
	struct msghdr whole = { .msg_iov = &data, .msg_iovlen = 1 };
	size_t size = message->nr_files * sizeof(message->files[0]);

	if (message->nr_files) {
		whole.msg_control = &control;
		whole.msg_controllen = CMSG_SPACE(size);
		control.head.cmsg_level = SOL_SOCKET;
		control.head.cmsg_type = SCM_RIGHTS;
		control.head.cmsg_len = CMSG_LEN(size);
		memcpy(CMSG_DATA(&control.head), message->files, size);
	}
	return TEMP_FAILURE_RETRY(sendmsg(socket, &whole, MSG_NOSIGNAL)) == (ssize_t)message->size;
}

/* The length; 0 if the message is malformed or the other end is closed. */
static ssize_t receive(int socket, struct worker_message *message, int flags)
{
	union control control;
	struct iovec data = { message->data, message->size };
	struct msghdr whole = { .msg_iov = &data,
				.msg_iovlen = 1,
				.msg_control = &control,
				.msg_controllen = sizeof(control) };
	struct cmsghdr *head;
	ssize_t length;

	message->nr_files = 0;
	length = TEMP_FAILURE_RETRY(recvmsg(socket, &whole, MSG_CMSG_CLOEXEC | flags));
	head = length > 0 ? CMSG_FIRSTHDR(&whole) : NULL;
	if (head && head->cmsg_type == SCM_RIGHTS) {
		message->nr_files =
			(unsigned int)((head->cmsg_len - CMSG_LEN(0)) / sizeof(message->files[0]));
		memcpy(message->files, CMSG_DATA(head),
		       message->nr_files * sizeof(message->files[0]));
	}
	if (length < (ssize_t)sizeof(struct worker_head) || whole.msg_flags & MSG_TRUNC) {
		worker_close_files(message);
		return 0;
	}
	message->size = (size_t)length;
	return length;
}

bool worker_receive(int socket, struct worker_message *message)
{
	return receive(socket, message, 0) > 0;
}

void worker_close_files(struct worker_message *message)
{
	unsigned int i;

	for (i = 0; i < message->nr_files; i++)
		close(message->files[i]);
	message->nr_files = 0;
}

/* --- what keeper and worker may do ---------------------------------------------------- */

uid_t worker_user(gid_t *group)
{
	const struct passwd *user = getpwnam(WORKER_USER);
	uid_t id = UNUSED_ID_HIGH;

	if (user) {
		*group = user->pw_gid;
		return user->pw_uid;
	}
	while (id > UNUSED_ID_LOW && (getpwuid(id) || getgrgid(id)))
		id--;
	*group = id;
	return id;
}

static void set_limit(__rlimit_resource_t resource, rlim_t value)
{
	struct rlimit limit = { value, value };

	if (setrlimit(resource, &limit))
		say_verbose("setrlimit: %s", strerror(errno));
}

static void be_killed_first(void)
{
	int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

	if (fd >= 0 && write(fd, "1000", 4) != 4)
		say_verbose("oom_score_adj: %s", strerror(errno));
	if (fd >= 0)
		close(fd);
}

static void keep_capabilities(const struct worker_kind *kind)
{
	cap_t now = cap_get_proc(), less = cap_init();
	cap_flag_value_t value;
	int i;

	for (i = 0; now && less && i < kind->nr_capabilities; i++) {
		if (cap_get_flag(now, kind->capabilities[i], CAP_PERMITTED, &value) ||
		    value != CAP_SET)
			continue;
		cap_set_flag(less, CAP_PERMITTED, 1, &kind->capabilities[i], CAP_SET);
		cap_set_flag(less, CAP_EFFECTIVE, 1, &kind->capabilities[i], CAP_SET);
	}
	if (!less || cap_set_proc(less))
		say("%s keeps its capabilities: %s", kind->name, strerror(errno));
	cap_free(now);
	cap_free(less);
}

/* Each limit is set even if another cannot be. */
static void drop_privileges(const struct worker_kind *kind, uid_t user, gid_t group)
{
	be_killed_first();
#ifndef __SANITIZE_ADDRESS__ /* its shadow is larger than any limit */
	set_limit(RLIMIT_AS, kind->memory);
#endif
	set_limit(RLIMIT_CORE, 0);
	if (!geteuid()) {
		prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0);
		if (setgroups(0, NULL) || setresgid(group, group, group) ||
		    setresuid(user, user, user))
			say("%s runs as root: %s: give habd CAP_SETUID and CAP_SETGID", kind->name,
			    strerror(errno));
	}
	keep_capabilities(kind);
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}

static int allow(scmp_filter_ctx filter, const int *calls, size_t count)
{
	size_t i;
	int error = 0;

	for (i = 0; i < count && !error; i++)
		error = seccomp_rule_add(filter, SCMP_ACT_ALLOW, calls[i], 0);
	return error;
}

/* All other calls fail with EPERM: libraries then go on without. */
static void filter_calls(const struct worker_kind *kind)
{
	static const int own[] = {
		SCMP_SYS(read),
		SCMP_SYS(pread64),
		SCMP_SYS(readv),
		SCMP_SYS(write),
		SCMP_SYS(writev),
		SCMP_SYS(close),
		SCMP_SYS(fstat),
		SCMP_SYS(newfstatat),
		SCMP_SYS(lseek),
		SCMP_SYS(fcntl),
		SCMP_SYS(dup),
		SCMP_SYS(mmap),
		SCMP_SYS(mprotect),
		SCMP_SYS(munmap),
		SCMP_SYS(mremap),
		SCMP_SYS(brk),
		SCMP_SYS(madvise),
		SCMP_SYS(futex),
		SCMP_SYS(recvmsg),
		SCMP_SYS(sendmsg),
		SCMP_SYS(rt_sigreturn),
		SCMP_SYS(rt_sigaction),
		SCMP_SYS(rt_sigprocmask),
		SCMP_SYS(sigaltstack),
		SCMP_SYS(getpid),
		SCMP_SYS(gettid),
		SCMP_SYS(tgkill),
		SCMP_SYS(clock_gettime),
		SCMP_SYS(getrandom),
		SCMP_SYS(sched_yield),
		SCMP_SYS(sysinfo),
		SCMP_SYS(restart_syscall),
		SCMP_SYS(exit),
		SCMP_SYS(exit_group),
	};
	static const int files[] = { SCMP_SYS(fstatfs), SCMP_SYS(statx), SCMP_SYS(readlink),
				     SCMP_SYS(readlinkat), SCMP_SYS(ioctl) };
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ERRNO(EPERM));
	int error = filter ? allow(filter, own, ARRAY_SIZE(own)) : -ENOMEM;

	if (!error && kind->opens_files)
		error = allow(filter, files, ARRAY_SIZE(files));
	if (!error && kind->opens_files)
		error = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(openat), 1,
					 SCMP_A2(SCMP_CMP_MASKED_EQ, O_ACCMODE | O_CREAT | O_TRUNC,
						 O_RDONLY));
	if (!error)
		error = seccomp_load(filter);
	if (error)
		say("%s may use every system call: seccomp: %s", kind->name, strerror(-error));
	seccomp_release(filter);
}

/* --- the keeper ----------------------------------------------------------------------- */

static pid_t start_worker(const struct worker_kind *kind)
{
	struct worker_head hello = { 0 };
	struct worker_message message = { .data = &hello, .size = sizeof(hello) };
	pid_t keeper = getpid(), worker = fork();
	sigset_t none;

	if (worker)
		return worker;
	prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	if (getppid() != keeper)
		_exit(0);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGBUS, SIG_DFL);
	signal(SIGSEGV, SIG_DFL);
	close_range(CONTROL_FD, ~0u, 0);
	if (!kind->any_call)
		filter_calls(kind);
	/* Request 0: its process id. */
	hello.status = getpid();
	if (worker_send(SOCKET_FD, &message))
		kind->work(SOCKET_FD);
	_exit(0);
}

struct keeper {
	const struct worker_kind *kind;
	int ends; /* a descriptor of signals: a worker has ended */
	pid_t worker;
	unsigned int abandoned;
};

/* True if @worker has ended; its status is set then. */
static bool take_ends(struct keeper *keeper, int *status)
{
	struct signalfd_siginfo signal;
	bool ended = false;
	int found;
	pid_t pid;

	if (read(keeper->ends, &signal, sizeof(signal)) < 0 && errno != EAGAIN)
		return false;
	while ((pid = waitpid(-1, &found, WNOHANG)) > 0) {
		if (pid == keeper->worker) {
			*status = found;
			ended = true;
		} else {
			keeper->abandoned--;
		}
	}
	return ended;
}

/* True if habd wants another worker. Ends the keeper if habd has ended. */
static bool take_control(const struct keeper *keeper)
{
	char byte;

	if (TEMP_FAILURE_RETRY(read(CONTROL_FD, &byte, 1)) > 0)
		return true;
	if (keeper->worker > 0)
		kill(keeper->worker, SIGKILL);
	_exit(0);
}

/* Waits until the worker has ended or is to be replaced. Returns its status. */
static int watch(struct keeper *keeper)
{
	struct pollfd ready[] = { { .fd = CONTROL_FD, .events = POLLIN },
				  { .fd = keeper->ends, .events = POLLIN } };
	int status = 0;

	for (;;) {
		if (poll(ready, ARRAY_SIZE(ready), -1) < 0)
			continue;
		if (ready[1].revents && take_ends(keeper, &status))
			return status;
		if (ready[0].revents && take_control(keeper)) {
			kill(keeper->worker, SIGKILL);
			keeper->abandoned++;
			return 0;
		}
	}
}

/* Waits while there are too many workers that do not end. */
static void wait_for_room(struct keeper *keeper)
{
	struct pollfd ready[] = { { .fd = CONTROL_FD, .events = POLLIN },
				  { .fd = keeper->ends, .events = POLLIN } };
	int status;

	keeper->worker = 0;
	while (keeper->abandoned >= ABANDONED_MAX) {
		if (poll(ready, ARRAY_SIZE(ready), -1) < 0)
			continue;
		if (ready[0].revents)
			take_control(keeper);
		if (ready[1].revents)
			take_ends(keeper, &status);
	}
}

static void __attribute__((noreturn)) keep(const struct worker_kind *kind)
{
	struct keeper keeper = { .kind = kind };
	struct worker_head end = { .ended = 1 };
	struct worker_message message = { .data = &end, .size = sizeof(end) };
	struct pollfd control = { .fd = CONTROL_FD, .events = POLLIN };
	sigset_t child;

	/* These signals are for habd, which then closes the descriptors. */
	signal(SIGTERM, SIG_IGN);
	signal(SIGINT, SIG_IGN);
	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	sigprocmask(SIG_BLOCK, &child, NULL);
	keeper.ends = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
	for (;;) {
		wait_for_room(&keeper);
		keeper.worker = start_worker(kind);
		if (keeper.worker > 0)
			end.status = watch(&keeper);
		if (!worker_send(SOCKET_FD, &message))
			_exit(0);
		if (poll(&control, 1, RESTART_PAUSE) > 0)
			take_control(&keeper);
	}
}

/* The descriptors of habd are not those of the keeper. */
static void keep_only(int socket, int control)
{
	int high_socket = fcntl(socket, F_DUPFD_CLOEXEC, FIRST_OTHER_FD);
	int high_control = fcntl(control, F_DUPFD_CLOEXEC, FIRST_OTHER_FD);

	if (dup2(high_socket, SOCKET_FD) < 0 || dup2(high_control, CONTROL_FD) < 0)
		_exit(1);
	close_range(FIRST_OTHER_FD, ~0u, 0);
	close(STDIN_FILENO);
	open("/dev/null", O_RDONLY);
}

/* --- habd's side ---------------------------------------------------------------------- */

static void __attribute__((noreturn))
run_keeper(const struct worker_kind *kind, pid_t habd, int socket, int control)
{
	gid_t group;
	uid_t user = worker_user(&group);

	keep_only(socket, control);
	prctl(PR_SET_NAME, kind->name, 0, 0, 0);
	drop_privileges(kind, user, group);
	/* A change of the user id has cleared what was set before. */
	prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	if (getppid() != habd)
		_exit(0);
	keep(kind);
}

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
		run_keeper(kind, habd, ends[1], control[0]);
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

	if (!receive(worker->socket, message, MSG_DONTWAIT))
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
