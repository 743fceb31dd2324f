// SPDX-License-Identifier: GPL-2.0-only
/*
 * Counts the instructions of a part of a program, by steps: steps PID. The part begins and ends
 * with a call getpgid(PART). Prints "ready", and at the part's end the count.
 */
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>

#include "steps.h"

/* At an instruction that makes the call. */
static bool is_at_mark(pid_t pid)
{
	struct user_regs_struct registers;
	long word;

	if (ptrace(PTRACE_GETREGS, pid, NULL, &registers))
		exit(1);
	if (registers.rax != SYS_getpgid || (int)registers.rdi != PART)
		return false;
	errno = 0;
	word = ptrace(PTRACE_PEEKTEXT, pid, registers.rip, NULL);
	return !errno && (word & 0xffff) == 0x050f;
}

/* False: the program has ended. */
static bool step(pid_t pid, int request)
{
	int status, number = 0;

	for (;;) {
		if (ptrace(request, pid, NULL, number) || waitpid(pid, &status, __WALL) != pid ||
		    !WIFSTOPPED(status))
			return false;
		number = WSTOPSIG(status) & 0x7f;
		if (number == SIGTRAP)
			return true;
	}
}

int main(int argc, char **argv)
{
	pid_t pid = argc > 1 ? atoi(argv[1]) : 0;
	unsigned long count = 0;
	struct user_regs_struct registers;
	int status;

	if (ptrace(PTRACE_SEIZE, pid, NULL, PTRACE_O_TRACESYSGOOD) ||
	    ptrace(PTRACE_INTERRUPT, pid, NULL, NULL) || waitpid(pid, &status, __WALL) != pid)
		return 1;
	puts("ready");
	fflush(stdout);
	do {
		if (!step(pid, PTRACE_SYSCALL) || ptrace(PTRACE_GETREGS, pid, NULL, &registers))
			return 1;
	} while (registers.orig_rax != SYS_getpgid || (int)registers.rdi != PART);
	/* That was the beginning of the call, and this is its end. */
	if (!step(pid, PTRACE_SYSCALL))
		return 1;
	while (!is_at_mark(pid)) {
		if (!step(pid, PTRACE_SINGLESTEP))
			return 1;
		count++;
	}
	printf("%lu\n", count);
	return ptrace(PTRACE_DETACH, pid, NULL, NULL) != 0;
}
