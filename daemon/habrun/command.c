// SPDX-License-Identifier: GPL-2.0-only
/*
 * Runs the command so that nothing about it differs: its input and output, its status, and the
 * signals that it gets.
 *
 * The command gets each signal once. The terminal sends Ctrl-C to all processes of the foreground
 * group, so the command has it already; a signal that was sent to habrun alone is passed on. The
 * kernel says which of the two it is.
 */
#include "daemon/habrun/command.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/shared/child.h"
#include "daemon/shared/util.h"

static const int passed_on[] = { SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2 };

void command_begin(struct command *command)
{
	struct sigaction by_default = { .sa_handler = SIG_DFL };
	sigset_t taken;
	unsigned int i;

	memset(command, 0, sizeof(*command));
	/* Ignored, it would have the kernel throw the command's status away. */
	sigaction(SIGCHLD, &by_default, &command->child_action);
	sigemptyset(&taken);
	sigaddset(&taken, SIGCHLD);
	for (i = 0; i < ARRAY_SIZE(passed_on); i++)
		sigaddset(&taken, passed_on[i]);
	command->signals = signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK);
	/* Where nobody reads its messages, habrun still writes the profile. */
	sigaddset(&taken, SIGPIPE);
	sigprocmask(SIG_BLOCK, &taken, &command->before);
}

/* The command has the signals that habrun was started with. */
static void restore_signals(const void *context)
{
	const struct command *command = context;

	sigaction(SIGCHLD, &command->child_action, NULL);
	sigprocmask(SIG_SETMASK, &command->before, NULL);
}

int command_replace(const struct command *command, char **argv)
{
	struct sigaction ignored = { .sa_handler = SIG_IGN }, before;

	/* A message that nobody has read may have left one pending: to ignore it drops it. */
	sigaction(SIGPIPE, &ignored, &before);
	sigaction(SIGPIPE, &before, NULL);
	restore_signals(command);
	execvp(argv[0], argv);
	return child_failed(argv[0], errno);
}

int command_start(struct command *command, char **argv)
{
	if (command->signals < 0)
		return child_failed(argv[0], errno);
	return child_start(argv, restore_signals, command, &command->pid);
}

static bool is_in_foreground(void)
{
	int terminal = open("/dev/tty", O_RDONLY | O_CLOEXEC);
	bool is = terminal >= 0 && tcgetpgrp(terminal) == getpgrp();

	if (terminal >= 0)
		close(terminal);
	return is;
}

/*
 * The shell waits for habrun alone, so it stops as the command does. Elsewhere the command may be
 * continued without habrun, which then goes on.
 */
static void stop_alike(const struct command *command)
{
	if (!is_in_foreground())
		return;
	raise(SIGSTOP);
	kill(command->pid, SIGCONT);
}

void command_take_signals(struct command *command)
{
	struct signalfd_siginfo signal;
	int status;

	while (read(command->signals, &signal, sizeof(signal)) == sizeof(signal))
		if (signal.ssi_signo != SIGCHLD && signal.ssi_code != SI_KERNEL && !command->ended)
			kill(command->pid, (int)signal.ssi_signo);
	if (command->ended || waitpid(command->pid, &status, WNOHANG | WUNTRACED) != command->pid)
		return;
	if (WIFSTOPPED(status)) {
		stop_alike(command);
	} else {
		command->ended = true;
		command->status = status;
	}
}

void command_end_alike(const struct command *command)
{
	struct rlimit none = { 0, 0 };
	sigset_t set;
	int number;

	if (!WIFSIGNALED(command->status))
		exit(WEXITSTATUS(command->status));
	number = WTERMSIG(command->status);
	/* The command has left its own core, if any. */
	setrlimit(RLIMIT_CORE, &none);
	prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	signal(number, SIG_DFL);
	sigemptyset(&set);
	sigaddset(&set, number);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	raise(number);
	exit(128 + number);
}
