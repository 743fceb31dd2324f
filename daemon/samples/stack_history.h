/* SPDX-License-Identifier: GPL-2.0-only */
/* What the counts of a stack were at points in time that somebody still asks about. */
#ifndef HABD_STACK_HISTORY_H
#define HABD_STACK_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/samples/stacks.h"

struct stack_mark {
	struct stack_mark *next; /* an older one */
	uint32_t number;
	uint64_t logged;	   /* samples the log had taken by then */
	struct stack_counts other; /* of entry 0, folded entries among it */
};

/* All marks of a table, the newest first. */
struct stack_marks {
	struct stack_mark *newest;
	uint32_t last_number;
	size_t nr_pasts; /* of all entries */
};

/* What an entry's counts were at the marks numbered above from, up to until. */
struct stack_past {
	struct stack_past *next; /* an older one */
	uint32_t from;
	uint32_t until;
	struct stack_counts counts;
};

struct stack_history {
	struct stack_past *newest;
	uint32_t changed; /* number of the newest mark when the counts changed last */
};

struct stack_mark *marks_add(struct stack_marks *marks);
void marks_remove(struct stack_marks *marks, struct stack_mark *mark);

/* A new entry, that was not there at any mark. */
void history_begin(struct stack_history *history, const struct stack_marks *marks);
/* The counts are about to change: remembers them if a mark wants them. */
void history_keep(struct stack_history *history, const struct stack_counts *counts,
		  struct stack_marks *marks);
/* What the counts were at the mark, given what they are. */
struct stack_counts history_at(const struct stack_history *history,
			       const struct stack_counts *counts, const struct stack_mark *mark);
/* Forgets what no mark wants any more. */
void history_prune(struct stack_history *history, struct stack_marks *marks);
void history_end(struct stack_history *history, struct stack_marks *marks);

#endif /* HABD_STACK_HISTORY_H */
