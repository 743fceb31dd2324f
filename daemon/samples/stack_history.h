/* SPDX-License-Identifier: GPL-2.0-only */
/* The counts of a stack at earlier points in time, as long as a recording needs them. */
#ifndef HABD_STACK_HISTORY_H
#define HABD_STACK_HISTORY_H

#include "daemon/samples/stacks.h"

struct stack_mark {
	struct stack_mark *next;   /* an older one */
	uint32_t number;	   /* from 1, ascending with time */
	uint64_t logged;	   /* samples in the log, ever, at this time */
	struct stack_counts other; /* counts of entry 0, with the entries that were folded since */
};

/* All marks of a table, the newest first. */
struct stack_marks {
	struct stack_mark *newest;
	uint32_t last_number;
	size_t nr_earlier; /* earlier counts that all entries keep */
};

/* The counts of an entry at the marks whose numbers are above @from, up to @until. */
struct earlier_counts {
	struct earlier_counts *next; /* older ones */
	uint32_t from;
	uint32_t until;
	struct stack_counts counts;
};

struct stack_history {
	struct earlier_counts *newest;
	uint32_t changed; /* number of the newest mark at the last change of the counts */
};

struct stack_mark *marks_add(struct stack_marks *marks);
void marks_remove(struct stack_marks *marks, struct stack_mark *mark);

/* A new entry: its counts were 0 at all marks. */
void history_begin(struct stack_history *history, const struct stack_marks *marks);
/* Before @counts change: keeps them if a mark needs them. */
void history_keep(struct stack_history *history, const struct stack_counts *counts,
		  struct stack_marks *marks);
/* The counts at @mark of an entry that has @counts now. */
struct stack_counts history_at(const struct stack_history *history,
			       const struct stack_counts *counts, const struct stack_mark *mark);
/* Frees the counts that no mark needs. */
void history_prune(struct stack_history *history, struct stack_marks *marks);
void history_end(struct stack_history *history, struct stack_marks *marks);

#endif /* HABD_STACK_HISTORY_H */
