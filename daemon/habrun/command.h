/* SPDX-License-Identifier: GPL-2.0-only */
/* The command that habrun runs: its start, its signals and its end. */
#ifndef HABRUN_COMMAND_H
#define HABRUN_COMMAND_H

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

#include "daemon/shared/child.h"

struct command {
	pid_t pid;
	int signals; /* a descriptor, readable when command_take_signals() should be called */
	bool ended;
	int status;	 /* of waitpid(), once it has ended */
	sigset_t before; /* this and the next: as habrun was started with */
	struct sigaction child_action;
};

/* Blocks the signals that command_take_signals() takes. Before the program has threads. */
void command_begin(struct command *command);
/* 0, or EXIT_CANNOT_RUN or EXIT_NO_COMMAND after a sentence. */
int command_start(struct command *command, char **argv);
/* Passes signals on to the command, and sets @command->ended. */
void command_take_signals(struct command *command);
/* Replaces this program by the command. Returns as command_start(), if that fails. */
int command_replace(const struct command *command, char **argv);
/* Ends this program as the command has ended: with its status, or by its signal. */
void command_end_alike(const struct command *command) __attribute__((noreturn));

#endif /* HABRUN_COMMAND_H */
