// SPDX-License-Identifier: GPL-2.0-only
/*
 * Starts the command that habrun or habctl was given. A command that cannot be run is told from one
 * that ends with the same status.
 */
#include "daemon/shared/child.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/shared/util.h"

int child_failed(const char *name, int error)
{
	if (error == ENOENT)
		say("%s cannot be run: there is no such command, or its interpreter is missing",
		    name);
	else
		say("%s cannot be run: %s", name, strerror(error));
	return error == ENOENT ? EXIT_NO_COMMAND : EXIT_CANNOT_RUN;
}

static void __attribute__((noreturn))
become(char **argv, void (*restore_signals)(const void *context), const void *context, int failed)
{
	int error;

	restore_signals(context);
	execvp(argv[0], argv);
	error = errno;
	_exit(write(failed, &error, sizeof(error)) == sizeof(error) ? 0 : EXIT_CANNOT_RUN);
}

int child_start(char **argv, void (*restore_signals)(const void *context), const void *context,
		pid_t *pid)
{
	int error, failed[2];
	pid_t child;
	bool ran;

	/* A successful exec closes it; a failed one writes its error into it. */
	if (pipe2(failed, O_CLOEXEC))
		return child_failed(argv[0], errno);
	child = fork();
	if (!child)
		become(argv, restore_signals, context, failed[1]);
	error = errno;
	close(failed[1]);
	ran = child > 0 &&
	      TEMP_FAILURE_RETRY(read(failed[0], &error, sizeof(error))) != sizeof(error);
	close(failed[0]);
	if (ran) {
		*pid = child;
		return 0;
	}
	if (child > 0)
		waitpid(child, NULL, 0);
	return child_failed(argv[0], error);
}
