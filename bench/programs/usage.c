// SPDX-License-Identifier: GPL-2.0-only
/*
 * usage FILE COMMAND...: runs a command and ends with its status. FILE gets one line: seconds of
 * CPU time of the command and of all processes that it waited for, the largest peak of resident
 * memory of one of them in KiB, and the instructions outside of the kernel, or "-" where the CPU
 * does not count them.
 */
#include <errno.h>
#include <linux/perf_event.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* Counts the instructions of the next program that the process starts, and of its children. */
static int count_instructions(void)
{
	struct perf_event_attr attributes = { .type = PERF_TYPE_HARDWARE,
					      .size = sizeof(attributes),
					      .config = PERF_COUNT_HW_INSTRUCTIONS,
					      .disabled = 1,
					      .inherit = 1,
					      .exclude_kernel = 1,
					      .exclude_hv = 1,
					      .enable_on_exec = 1 };

	return (int)syscall(SYS_perf_event_open, &attributes, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

static double seconds(struct timeval time)
{
	return (double)time.tv_sec + (double)time.tv_usec / 1e6;
}

static bool write_line(const char *path, const struct rusage *used, int counter)
{
	FILE *file = fopen(path, "w");
	uint64_t instructions;

	if (!file)
		return false;
	fprintf(file, "%.6f %ld ", seconds(used->ru_utime) + seconds(used->ru_stime),
		used->ru_maxrss);
	if (read(counter, &instructions, sizeof(instructions)) == sizeof(instructions))
		fprintf(file, "%lu\n", instructions);
	else
		fprintf(file, "-\n");
	return !fclose(file);
}

int main(int argc, char **argv)
{
	struct rusage used;
	int counter, status;
	pid_t child;

	if (argc < 3) {
		fputs("use: usage FILE COMMAND...\n", stderr);
		return 2;
	}
	/* The child inherits the counter, which begins at its exec. */
	counter = count_instructions();
	child = fork();
	if (child < 0)
		return 1;
	if (child == 0) {
		execvp(argv[2], argv + 2);
		fprintf(stderr, "usage: %s: %s\n", argv[2], strerror(errno));
		_exit(127);
	}
	/* Signals of the terminal are the command's. */
	signal(SIGINT, SIG_IGN);
	if (wait4(child, &status, 0, &used) != child || !write_line(argv[1], &used, counter)) {
		fprintf(stderr, "usage: %s: %s\n", argv[1], strerror(errno));
		return 1;
	}
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
