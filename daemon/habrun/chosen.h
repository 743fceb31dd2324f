/* SPDX-License-Identifier: GPL-2.0-only */
/* The processes that habrun -p attaches to: those that were named, below them, or of a unit. */
#ifndef HABRUN_CHOSEN_H
#define HABRUN_CHOSEN_H

#include <stdbool.h>

#include "daemon/habrun/command_line.h"

struct chosen;

struct chosen *chosen_new(const struct options *options);
void chosen_free(struct chosen *chosen);
/* Looks for processes, or programs in them, that are new. */
void chosen_look(struct chosen *chosen);
/* The next one that was not given yet, of any user @but these; 0: there is none now. */
pid_t chosen_next(struct chosen *chosen, const uid_t *but, unsigned int nr, uid_t *user);

#endif /* HABRUN_CHOSEN_H */
