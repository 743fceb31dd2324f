/* SPDX-License-Identifier: GPL-2.0-only */
/* The start of the command that habrun or habctl was given. */
#ifndef HABD_CHILD_H
#define HABD_CHILD_H

#include <sys/types.h>

#define EXIT_CANNOT_RUN 126
#define EXIT_NO_COMMAND 127

/*
 * @restore_signals is called in the child. 0, or EXIT_CANNOT_RUN or EXIT_NO_COMMAND after a
 * sentence; *pid is unchanged then.
 */
int child_start(char **argv, void (*restore_signals)(const void *context), const void *context,
		pid_t *pid);
/* Says why the command cannot be run, and returns as child_start(). */
int child_failed(const char *name, int error);

#endif /* HABD_CHILD_H */
