// SPDX-License-Identifier: GPL-2.0-only
/*
 * What the counts of a stack were at points in time that somebody still asks about.
 *
 * The hard case is many recordings of many stacks: a copy of all counts for each
 * would take more than the table. So a mark is a number, and an entry remembers its
 * old counts only when it changes for the first time after a mark. Marks between two
 * changes share what is remembered, and most stacks do not change at all.
 */
#include "daemon/samples/stack_history.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/shared/util.h"

struct stack_mark *marks_add(struct stack_marks *marks)
{
	struct stack_mark *mark = xcalloc(1, sizeof(*mark));

	mark->number = ++marks->last_number;
	mark->next = marks->newest;
	marks->newest = mark;
	return mark;
}

void marks_remove(struct stack_marks *marks, struct stack_mark *mark)
{
	struct stack_mark **link = &marks->newest;

	while (*link != mark)
		link = &(*link)->next;
	*link = mark->next;
	free(mark);
}

void history_begin(struct stack_history *history, const struct stack_marks *marks)
{
	history->newest = NULL;
	history->changed = marks->last_number;
}

static bool wanted(const struct stack_marks *marks, uint32_t from, uint32_t until)
{
	const struct stack_mark *mark;

	for (mark = marks->newest; mark && mark->number > from; mark = mark->next)
		if (mark->number <= until)
			return true;
	return false;
}

void history_prune(struct stack_history *history, struct stack_marks *marks)
{
	struct stack_past **link = &history->newest, *past;

	while ((past = *link)) {
		if (wanted(marks, past->from, past->until)) {
			link = &past->next;
			continue;
		}
		*link = past->next;
		free(past);
		marks->nr_pasts--;
	}
}

void history_keep(struct stack_history *history, const struct stack_counts *counts,
		  struct stack_marks *marks)
{
	struct stack_past *past;

	if (history->changed == marks->last_number)
		return;
	history_prune(history, marks);
	if (wanted(marks, history->changed, marks->last_number)) {
		past = xcalloc(1, sizeof(*past));
		past->from = history->changed;
		past->until = marks->last_number;
		past->counts = *counts;
		past->next = history->newest;
		history->newest = past;
		marks->nr_pasts++;
	}
	history->changed = marks->last_number;
}

struct stack_counts history_at(const struct stack_history *history,
			       const struct stack_counts *counts, const struct stack_mark *mark)
{
	const struct stack_past *past;
	struct stack_counts none = { 0 };

	if (mark->number > history->changed)
		return *counts;
	for (past = history->newest; past; past = past->next)
		if (mark->number > past->from && mark->number <= past->until)
			return past->counts;
	/* The entry is younger than the mark. */
	return none;
}

void history_end(struct stack_history *history, struct stack_marks *marks)
{
	struct stack_past *past;

	while ((past = history->newest)) {
		history->newest = past->next;
		free(past);
		marks->nr_pasts--;
	}
}
