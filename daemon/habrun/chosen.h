/* SPDX-License-Identifier: GPL-2.0-only */
/* The processes that habrun -p attaches to: those that were named, below them, or of a unit. */
#ifndef HABRUN_CHOSEN_H
#define HABRUN_CHOSEN_H

#include <stdbool.h>

#include "daemon/habrun/command_line.h"

struct chosen;

struct chosen *chosen_new(const struct options *options);
void chosen_free(struct chosen *chosen);
/* The next process that was not given yet; 0: there is none now. */
pid_t chosen_next(struct chosen *chosen);
/* Looks for new processes. False: there will be none. */
bool chosen_look(struct chosen *chosen);

#endif /* HABRUN_CHOSEN_H */
