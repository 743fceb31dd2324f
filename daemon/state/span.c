// SPDX-License-Identifier: GPL-2.0-only
/*
 * A time span of the tables, and the profile of it.
 *
 * The hard case is a recording of several parts: each sample must be in exactly one of them. So
 * the next part begins under the lock under which the last one was copied out of the tables.
 */
#include "daemon/state/span.h"

#include <string.h>

#include "daemon/shared/util.h"

void span_begin(struct state *state, struct span *span)
{
	pthread_mutex_lock(&state->lock);
	span->mark = stacks_mark(state->stacks);
	pthread_mutex_unlock(&state->lock);
	span->start_ns = clock_realtime_ns();
	span->start_monotonic_ns = clock_monotonic_ns();
}

void span_end(struct state *state, struct span *span)
{
	pthread_mutex_lock(&state->lock);
	stacks_unmark(state->stacks, span->mark);
	pthread_mutex_unlock(&state->lock);
	span->mark = NULL;
}

struct span span_all(const struct state *state)
{
	struct span span = { NULL, state->start_ns, state->start_monotonic_ns };

	return span;
}

static void span_restart_locked(struct state *state, struct span *span)
{
	struct stack_mark *mark = stacks_mark(state->stacks);

	stacks_unmark(state->stacks, span->mark);
	span->mark = mark;
	span->start_ns = clock_realtime_ns();
	span->start_monotonic_ns = clock_monotonic_ns();
}

bool span_write(struct state *state, struct span *span, const struct filter *filter,
		enum profile_format format, bool restart, FILE *out, struct profile_head *head)
{
	struct filter wanted = *filter;
	struct profile *profile;
	bool good;

	/* JFR has a type for each kind, so that kinds are never summed up. */
	if (format == PROFILE_JFR && !filter->kinds)
		wanted.each_kind = true;
	pthread_mutex_lock(&state->render);
	pthread_mutex_lock(&state->lock);
	profile = profile_collect(state->stacks, span->mark, state->binaries, &wanted, restart);
	profile->start_ns = span->start_ns;
	profile->duration_ns = clock_monotonic_ns() - span->start_monotonic_ns;
	if (format == PROFILE_JFR)
		profile_collect_events(profile, state->stacks, span->mark,
				       state->feed->ops->now_ns(state->feed));
	if (restart)
		span_restart_locked(state, span);
	pthread_mutex_unlock(&state->lock);
	profile_name(profile, state->symbols);
	good = profile_write(profile, format, out);
	head->total = profile->total;
	head->kinds = profile->kinds;
	head->other_kinds = profile->other_kinds;
	head->folded = filter_selects(filter) ? profile->folded : 0;
	profile_free(profile);
	pthread_mutex_unlock(&state->render);
	return good;
}
