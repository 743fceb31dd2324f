/* SPDX-License-Identifier: GPL-2.0-only */
/* The processes of the command that have not connected, by reason. */
#ifndef HABRUN_UNSEEN_H
#define HABRUN_UNSEEN_H

#include <sys/types.h>

struct unseen;

/* @command: a process; those that it and its children start are looked at. */
struct unseen *unseen_new(pid_t command);
/* Looks at the processes, if that is due. Returns the milliseconds until it is due again. */
int unseen_poll(struct unseen *unseen);
/* A sentence for each reason. Ends the looking. Returns how many processes there were. */
unsigned int unseen_say(struct unseen *unseen);
void unseen_free(struct unseen *unseen);

#endif /* HABRUN_UNSEEN_H */
