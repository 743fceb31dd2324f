// SPDX-License-Identifier: GPL-2.0-only
/*
 * Spans of time and their profiles.
 *
 * Each sample is in exactly one part of a recording: the next part begins under the lock under
 * which the last one was copied out of the tables.
 */
#include "daemon/habd/state/spans.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "daemon/collect/to_profile.h"
#include "daemon/shared/kinds.h"
#include "daemon/shared/util.h"

static void set_start(struct span *span)
{
	span->start_ns = clock_realtime_ns();
	span->start_monotonic_ns = clock_monotonic_ns();
}

/* No two spans have the same, whichever process makes them. */
static void make_token(struct span *span)
{
	uint64_t random[2];

	if (getrandom(random, sizeof(random), 0) != sizeof(random))
		random[0] = hash_seed, random[1] = clock_monotonic_ns();
	snprintf(span->token, sizeof(span->token), "%016" PRIx64 "%016" PRIx64, random[0],
		 random[1]);
}

/* In the viewer: the same for its collectors. It waits for them. */
static void tell_span(struct state *state, const struct span *span, const char *what)
{
	char *path;

	if (!state->snapshots)
		return;
	path = xformat("/part/record/%s?token=%s", what, span->token);
	snapshots_tell(state->snapshots, path);
	free(path);
}

void span_begin(struct state *state, struct span *span, const char *token)
{
	memset(span, 0, sizeof(*span));
	set_start(span);
	span->is_of_viewer = token;
	if (token)
		snprintf(span->token, sizeof(span->token), "%s", token);
	else
		make_token(span);
	pthread_mutex_lock(&state->lock);
	span->mark = stacks_mark(state->stacks, feed_now_ns(state->feed), span->is_of_viewer);
	pthread_mutex_unlock(&state->lock);
	tell_span(state, span, "start");
}

void span_keep(struct state *state, const struct span *span)
{
	tell_span(state, span, "keep");
}

void span_drop(struct state *state, struct span *span)
{
	pthread_mutex_lock(&state->lock);
	stacks_unmark(state->stacks, span->mark);
	pthread_mutex_unlock(&state->lock);
	span->mark = NULL;
}

void span_end(struct state *state, struct span *span)
{
	tell_span(state, span, "end");
	span_drop(state, span);
}

struct span span_all(const struct state *state)
{
	struct span span = { .token = SPAN_ALL,
			     .start_ns = state->start_ns,
			     .start_monotonic_ns = state->start_monotonic_ns };

	return span;
}

struct span span_recent(void)
{
	return (struct span){ .token = SPAN_RECENT };
}

static bool is_recent(const struct span *span)
{
	return !strcmp(span->token, SPAN_RECENT);
}

static void span_restart_locked(struct state *state, struct span *span)
{
	struct stack_mark *mark = stacks_mark_next(state->stacks, span->mark, span->is_of_viewer);

	if (span->is_of_viewer) {
		span->before.is_kept = true;
		span->before.mark = span->mark;
		span->before.start_ns = span->start_ns;
		span->before.start_monotonic_ns = span->start_monotonic_ns;
	} else {
		stacks_unmark(state->stacks, span->mark);
	}
	span->mark = mark;
	set_start(span);
}

void span_settle(struct state *state, struct span *span, bool arrived)
{
	if (!span->before.is_kept)
		return;
	pthread_mutex_lock(&state->lock);
	stacks_unmark(state->stacks, arrived ? span->before.mark : span->mark);
	pthread_mutex_unlock(&state->lock);
	if (!arrived) {
		span->mark = span->before.mark;
		span->start_ns = span->before.start_ns;
		span->start_monotonic_ns = span->before.start_monotonic_ns;
	}
	span->before.is_kept = false;
}

static struct profile *collect_own(struct state *state, struct span *span,
				   const struct filter *filter, bool has_events, bool restart)
{
	const struct stack_mark *mark;
	struct profile_copy *copy;
	struct profile *profile;

	pthread_mutex_lock(&state->render);
	if (state->channels)
		channels_read_pages(state->channels);
	pthread_mutex_lock(&state->lock);
	if (is_recent(span))
		state_move_recent_locked(state, clock_monotonic_ns());
	mark = is_recent(span) ? state->recent[0] : span->mark;
	copy = profile_copy(state->stacks, mark, state->binaries, filter, restart);
	if (has_events)
		profile_copy_events(copy, state->stacks, mark, feed_now_ns(state->feed));
	if (is_recent(span))
		span->start_monotonic_ns = state->recent_ns[0];
	span->duration_ns = clock_monotonic_ns() - span->start_monotonic_ns;
	if (restart)
		span_restart_locked(state, span);
	pthread_mutex_unlock(&state->lock);
	profile = profile_collect(copy, filter, span->duration_ns);
	pthread_mutex_unlock(&state->render);
	return profile;
}

/* The end of a part is when all were asked for it. */
static struct profile *collect_of_owners(struct state *state, struct span *span,
					 const struct filter *filter, bool has_events, bool restart)
{
	/* What a collector has counted before it knew of the history is in no file. */
	struct snapshot_request request = { .span = span->token,
					    .begun_ns = strcmp(span->token, SPAN_HISTORY) ?
								span->start_monotonic_ns :
								0,
					    .start_ns = span->start_ns,
					    .filter = filter,
					    .of_owner = span->of_owner,
					    .restart = restart,
					    .events = has_events };

	if (is_recent(span))
		span->start_monotonic_ns = recent_start_ns(clock_monotonic_ns());
	span->duration_ns = clock_monotonic_ns() - span->start_monotonic_ns;
	if (restart)
		set_start(span);
	return snapshots_profile(state->snapshots, &request, span->bytes_of_owner);
}

struct profile *span_collect(struct state *state, struct span *span, const struct filter *filter,
			     bool has_events, bool restart)
{
	uint64_t start_ns = span->start_ns;
	struct profile *profile;

	if (state->snapshots) {
		profile = collect_of_owners(state, span, filter, has_events, restart);
	} else {
		profile = collect_own(state, span, filter, has_events, restart);
		profile_name(profile, state->symbols);
	}
	profile->start_ns = start_ns;
	profile->duration_ns = span->duration_ns;
	if (span->at_end) {
		profile->start_ns = clock_realtime_ns();
		profile->duration_ns = 0;
	}
	return profile;
}

struct profile *span_profile(struct state *state, struct span *span, const struct filter *filter)
{
	return span_collect(state, span, filter, false, false);
}

void span_write(struct state *state, struct span *span, const struct filter *filter,
		const struct profile_format *format, enum profile_view view, bool restart,
		FILE *out, struct profile_head *head)
{
	struct filter wanted = *filter;
	struct profile *profile;

	/* JFR has a type for each kind of what is allocated, so that they are never summed up. */
	if (format->has_events && !filter->kinds && !filter->each_kind)
		wanted.kinds = KINDS_ALL & ~(1u << HAB_KIND_GROWTH);
	profile = span_collect(state, span, &wanted, format->has_events, restart);
	profile->view = view;
	pthread_mutex_lock(&state->render);
	format->write(profile, out);
	pthread_mutex_unlock(&state->render);
	head->total = profile->total;
	head->kinds = profile->kinds;
	head->other_kinds = profile->other_kinds;
	head->folded = filter_selects(filter) ? profile->folded : 0;
	head->in_use = profile->total_in_use.bytes;
	head->late_names = profile->late_names;
	head->missing = profile->missing;
	profile_free(profile);
}
