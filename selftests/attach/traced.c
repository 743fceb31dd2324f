// SPDX-License-Identifier: GPL-2.0-only
/* A program that its child traces. */
#include <signal.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <unistd.h>

int main(void)
{
	pid_t parent = getpid();

	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
	if (!fork()) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (ptrace(PTRACE_SEIZE, parent, 0, 0))
			return 1;
		sleep(60);
		return 0;
	}
	sleep(60);
	return 0;
}
