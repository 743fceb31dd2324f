// SPDX-License-Identifier: GPL-2.0-only
/*
 * A time span of the tables, and the profile of it.
 *
 * The hard case is a recording of several parts: each sample must be in one of them, so the
 * next part begins at the very moment at which the last one was collected.
 */
#include <string.h>

#include "daemon/habd/habd.h"
#include "daemon/shared/util.h"

void span_begin(struct habd *habd, struct span *span)
{
	pthread_mutex_lock(&habd->lock);
	span->mark = stacks_mark(habd->stacks);
	pthread_mutex_unlock(&habd->lock);
	span->start_ns = clock_realtime_ns();
	span->start_monotonic_ns = clock_monotonic_ns();
}

void span_end(struct habd *habd, struct span *span)
{
	pthread_mutex_lock(&habd->lock);
	stacks_unmark(habd->stacks, span->mark);
	pthread_mutex_unlock(&habd->lock);
	span->mark = NULL;
}

struct span span_all(const struct habd *habd)
{
	struct span span = { NULL, habd->start_ns, habd->start_monotonic_ns };

	return span;
}

/* The caller holds the daemon's lock. */
static void span_again(struct habd *habd, struct span *span)
{
	struct stack_mark *mark = stacks_mark(habd->stacks);

	stacks_unmark(habd->stacks, span->mark);
	span->mark = mark;
	span->start_ns = clock_realtime_ns();
	span->start_monotonic_ns = clock_monotonic_ns();
}

bool span_write(struct habd *habd, struct span *span, const struct filter *filter,
		enum profile_format format, bool again, struct text *out, struct profile_head *head)
{
	struct filter wanted = *filter;
	struct profile *profile;
	bool good;

	/* It has a type for each kind, so nothing is summed. */
	if (format == PROFILE_JFR && !filter->kinds)
		wanted.each_kind = true;
	pthread_mutex_lock(&habd->render);
	pthread_mutex_lock(&habd->lock);
	profile = profile_collect(habd->stacks, span->mark, habd->binaries, &wanted, again);
	profile->start_ns = span->start_ns;
	profile->duration_ns = clock_monotonic_ns() - span->start_monotonic_ns;
	if (format == PROFILE_JFR)
		profile_collect_events(profile, habd->stacks, span->mark,
				       habd->feed->ops->now_ns(habd->feed));
	if (again)
		span_again(habd, span);
	pthread_mutex_unlock(&habd->lock);
	profile_name(profile, habd->symbols);
	good = profile_write(profile, format, out);
	head->total = profile->total;
	head->kinds = profile->kinds;
	head->other_kinds = profile->other_kinds;
	head->folded = filter_narrows(filter) ? profile->folded : 0;
	profile_free(profile);
	pthread_mutex_unlock(&habd->render);
	return good;
}
