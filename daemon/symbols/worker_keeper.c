// SPDX-License-Identifier: GPL-2.0-only
/*
 * The keeper of workers, and what it and they may do.
 *
 * The keeper is forked before habd has threads: a fork of a process with threads cannot safely go
 * on without exec(). It and its workers have a user id of their own, and no more capabilities than
 * the kind of worker needs; workers have only the system calls that reading takes. Both end when
 * habd ends.
 */
#include "daemon/symbols/worker_keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <pwd.h>
#include <seccomp.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/shared/util.h"
#include "daemon/symbols/worker_messages.h"

#define ABANDONED_MAX  16
#define RESTART_PAUSE  10 /* ms, so that a worker that ends at once takes little time */
#define UNUSED_ID_HIGH 65532
#define UNUSED_ID_LOW  65500

enum { SOCKET_FD = 3, CONTROL_FD, FIRST_OTHER_FD };

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

void worker_keep(const struct worker_kind *kind, pid_t habd, int socket, int control)
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
