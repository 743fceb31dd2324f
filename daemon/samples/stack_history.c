// SPDX-License-Identifier: GPL-2.0-only
/*
 * The counts of a stack at earlier points in time.
 *
 * Many recordings of many stacks: a copy of all counts for each recording would take more memory
 * than the table. So a mark is a number, and an entry keeps its old counts only at its first change
 * after a mark. All marks between two changes share them, and most stacks never change again.
 */
#include "daemon/samples/stack_history.h"

#include <stdbool.h>
#include <stdlib.h>

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

/* True if a mark has a number above @from, up to @until. */
static bool is_needed(const struct stack_marks *marks, uint32_t from, uint32_t until)
{
	const struct stack_mark *mark;

	for (mark = marks->newest; mark && mark->number > from; mark = mark->next)
		if (mark->number <= until)
			return true;
	return false;
}

void history_prune(struct stack_history *history, struct stack_marks *marks)
{
	struct earlier_counts **link = &history->newest, *earlier;

	while ((earlier = *link)) {
		if (is_needed(marks, earlier->from, earlier->until)) {
			link = &earlier->next;
			continue;
		}
		*link = earlier->next;
		free(earlier);
		marks->nr_earlier--;
	}
}

void history_keep(struct stack_history *history, const struct stack_counts *counts,
		  struct stack_marks *marks)
{
	struct earlier_counts *earlier;

	if (history->changed == marks->last_number)
		return;
	history_prune(history, marks);
	if (is_needed(marks, history->changed, marks->last_number)) {
		earlier = xcalloc(1, sizeof(*earlier));
		earlier->from = history->changed;
		earlier->until = marks->last_number;
		earlier->counts = *counts;
		earlier->next = history->newest;
		history->newest = earlier;
		marks->nr_earlier++;
	}
	history->changed = marks->last_number;
}

struct stack_counts history_at(const struct stack_history *history,
			       const struct stack_counts *counts, const struct stack_mark *mark)
{
	const struct earlier_counts *earlier;
	struct stack_counts none = { 0 };

	if (mark->number > history->changed)
		return *counts;
	for (earlier = history->newest; earlier; earlier = earlier->next)
		if (mark->number > earlier->from && mark->number <= earlier->until)
			return earlier->counts;
	/* The entry is younger than the mark. */
	return none;
}

void history_end(struct stack_history *history, struct stack_marks *marks)
{
	struct earlier_counts *earlier;

	while ((earlier = history->newest)) {
		history->newest = earlier->next;
		free(earlier);
		marks->nr_earlier--;
	}
}
