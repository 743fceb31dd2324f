// SPDX-License-Identifier: GPL-2.0-only
/*
 * The tables of habd: made, brought up to date, and read as profiles and counts.
 *
 * The hard case is a recording of several parts: each sample must be in exactly one of them. So
 * the next part begins under the lock under which the last one was copied out of the tables.
 */
#include "daemon/state/state.h"

#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "daemon/profile/collect.h"
#include "daemon/shared/util.h"

#define TOTALS_NS     1000000000ull
#define FOLD_NS	      3000000000ull
#define RECENT_NS     5000000000ull
#define EVICT_NS      1000000000ull
#define EVICT_SLOW_NS 10000000000ull
#define EVICTED_MIN   64
#define IN_USE_NS     1000000000ull

void state_begin(struct state *state, unsigned int stacks, unsigned int debuginfod_seconds)
{
	unsigned int i;

	memset(state, 0, sizeof(*state));
	turns_begin(&state->profiles, PROFILES_AT_ONCE);
	pthread_mutex_init(&state->render, NULL);
	pthread_mutex_init(&state->lock, NULL);
	state->binaries = binaries_new();
	state->processes = processes_new(state->binaries, &state->lock);
	state->stacks = stacks_new(stacks);
	state->ingest = ingest_new(state->processes, state->stacks);
	state->symbols = symbols_new(debuginfod_seconds);
	state->totals = totals_new();
	state->timeline = timeline_new(state->stacks);
	state->start_ns = clock_realtime_ns();
	state->start_monotonic_ns = clock_monotonic_ns();
	for (i = 0; i < RECENT_MARKS; i++) {
		state->recent_ns[i] = state->start_monotonic_ns;
		state->recent[i] = stacks_mark(state->stacks);
	}
	state->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
}

void state_end(struct state *state)
{
	missed_free(state->missed);
	totals_free(state->totals);
	timeline_free(state->timeline, state->stacks);
	symbols_free(state->symbols);
	/* Its waiting samples are released to the next. */
	processes_free(state->processes);
	ingest_free(state->ingest);
	stacks_free(state->stacks);
	binaries_free(state->binaries);
	close(state->stop_fd);
	pthread_mutex_destroy(&state->lock);
	pthread_mutex_destroy(&state->render);
	turns_end(&state->profiles);
}

static void update_totals_locked(struct state *state, uint64_t now)
{
	static uint64_t totals_ns, fold_ns;

	if (now - fold_ns >= FOLD_NS) {
		totals_fold(state->totals, state->feed);
		totals_ns = 0;
		fold_ns = now;
	}
	if (now - totals_ns >= TOTALS_NS) {
		totals_read(state->totals, state->feed, state->channels, now);
		missed_update(state->missed, &state->totals->now);
		totals_ns = now;
	}
}

static void move_recent_locked(struct state *state, uint64_t now)
{
	if (now - state->recent_ns[1] < RECENT_NS)
		return;
	stacks_unmark(state->stacks, state->recent[0]);
	state->recent[0] = state->recent[1];
	state->recent_ns[0] = state->recent_ns[1];
	state->recent[1] = stacks_mark(state->stacks);
	state->recent_ns[1] = now;
}

static void mark_binaries(void *used, uint32_t number, const struct stack_key *key,
			  const struct stack_counts *counts)
{
	bool *marks = used;
	uint32_t i;

	for (i = 0; i < key->nr_frames; i++)
		marks[FRAME_BINARY(key->frames[i])] = true;
}

/* Frees the binaries that neither a process has mapped nor a stack of the table runs through. */
static void evict_binaries_locked(struct state *state, uint64_t now)
{
	static bool used[BINARIES_MAX];

	if (!binaries_are_crowded(state->binaries) || now < state->evict_ns)
		return;
	memset(used, 0, sizeof(used));
	processes_mark(state->processes, used);
	stacks_visit(state->stacks, NULL, mark_binaries, used);
	/* While it helps little it is done less often: the table may be full of what is needed. */
	state->evict_ns =
		now +
		(binaries_evict(state->binaries, used) < EVICTED_MIN ? EVICT_SLOW_NS : EVICT_NS);
}

void state_tick(struct state *state)
{
	uint64_t now = clock_monotonic_ns();

	pthread_mutex_lock(&state->lock);
	/* The clock of replayed records is their own. */
	ingest_flush(state->ingest, state->feed->ops->now_ns(state->feed));
	processes_tidy(state->processes);
	evict_binaries_locked(state, now);
	update_totals_locked(state, now);
	move_recent_locked(state, now);
	timeline_update(state->timeline, state->stacks);
	pthread_mutex_unlock(&state->lock);
}

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
	struct span span = { .start_ns = state->start_ns,
			     .start_monotonic_ns = state->start_monotonic_ns };

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

static struct profile *collect(struct state *state, struct span *span, const struct filter *filter,
			       bool has_events, bool restart)
{
	uint64_t start_ns = span->start_ns, duration_ns;
	struct profile_copy *copy;
	struct profile *profile;

	pthread_mutex_lock(&state->render);
	pthread_mutex_lock(&state->lock);
	copy = profile_copy(state->stacks, span->mark, state->binaries, filter, restart);
	duration_ns = clock_monotonic_ns() - span->start_monotonic_ns;
	if (has_events)
		profile_copy_events(copy, state->stacks, span->mark,
				    state->feed->ops->now_ns(state->feed));
	if (restart)
		span_restart_locked(state, span);
	pthread_mutex_unlock(&state->lock);
	profile = profile_collect(copy, filter, duration_ns);
	profile->start_ns = start_ns;
	if (span->at_end) {
		profile->start_ns = clock_realtime_ns();
		profile->duration_ns = 0;
	}
	pthread_mutex_unlock(&state->render);
	return profile;
}

struct profile *span_profile(struct state *state, struct span *span, const struct filter *filter)
{
	struct profile *profile = collect(state, span, filter, false, false);

	profile_name(profile, state->symbols);
	return profile;
}

void span_write(struct state *state, struct span *span, const struct filter *filter,
		const struct profile_format *format, enum profile_view view, bool restart,
		FILE *out, struct profile_head *head)
{
	struct filter wanted = *filter;
	struct profile *profile;

	/* JFR has a type for each kind, so that kinds are never summed up. */
	if (format->has_events && !filter->kinds)
		wanted.each_kind = true;
	profile = collect(state, span, &wanted, format->has_events, restart);
	profile_name(profile, state->symbols);
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
	profile_free(profile);
}

static void count_refills(struct numbers *numbers)
{
	const struct module_state *module = &numbers->module;
	const struct feed_totals *now = &numbers->totals.now;

	numbers->lost = now->machine.lost + now->missed_events;
	numbers->refills = module->known[MODULE_REFILLS] ?
				   module->value[MODULE_REFILLS] :
				   now->machine.refills + now->missed_refills;
	numbers->refill_bytes = module->known[MODULE_REFILL_BYTES] ?
					module->value[MODULE_REFILL_BYTES] :
					now->machine.bytes;
}

struct in_use_sums {
	uint64_t all;
	struct totals_process **processes; /* sorted by pid */
	unsigned int nr;
};

static int compare_pids(const void *one, const void *two)
{
	uint32_t first = (*(struct totals_process *const *)one)->pid;
	uint32_t second = (*(struct totals_process *const *)two)->pid;

	return first < second ? -1 : first > second;
}

static void add_in_use(void *context, uint32_t pid, uint64_t bytes)
{
	struct totals_process wanted = { .pid = pid }, *wants = &wanted, **found;
	struct in_use_sums *sums = context;

	sums_add(&sums->all, &bytes, 1);
	found = sums->nr ? bsearch(&wants, sums->processes, sums->nr, sizeof(wants), compare_pids) :
			   NULL;
	if (found)
		(*found)->in_use_bytes = bytes;
}

/* It looks at every live sample. So once a second is the most, however many requests there are. */
static void update_in_use_locked(struct state *state, uint64_t now)
{
	struct totals *totals = state->totals;
	struct in_use_sums sums = { .nr = totals->nr_processes };
	unsigned int i;

	if (now - state->in_use_ns < IN_USE_NS)
		return;
	sums.processes = xcalloc(sums.nr, sizeof(struct totals_process *));
	for (i = 0; i < sums.nr; i++) {
		sums.processes[i] = &totals->processes[i];
		totals->processes[i].in_use_bytes = 0;
	}
	qsort(sums.processes, sums.nr, sizeof(struct totals_process *), compare_pids);
	stacks_visit_processes_in_use(state->stacks, add_in_use, &sums);
	free(sums.processes);
	state->in_use_bytes = sums.all;
	state->in_use_ns = now;
}

/* The daemon's lock is free again while the copy is written to a client. */
void numbers_begin(struct numbers *numbers, struct state *state)
{
	struct totals *totals = state->totals;
	uint64_t now = clock_monotonic_ns();

	memset(numbers, 0, sizeof(*numbers));
	if (state->feed->ops->module)
		module_numbers_read(&numbers->module);
	pthread_mutex_lock(&state->lock);
	totals_read(totals, state->feed, state->channels, now);
	numbers->knows_in_use = stacks_know_in_use(state->stacks);
	if (numbers->knows_in_use)
		update_in_use_locked(state, now);
	numbers->in_use_bytes = state->in_use_bytes;
	numbers->totals = *totals;
	numbers->totals.now.processes = NULL;
	numbers->totals.processes = xcalloc(totals->nr_processes, sizeof(*totals->processes));
	if (totals->nr_processes)
		memcpy(numbers->totals.processes, totals->processes,
		       totals->nr_processes * sizeof(*totals->processes));
	numbers->missed = missed_counts(state->missed);
	numbers->ingest = *ingest_counts(state->ingest);
	numbers->pending = *ingest_pending_counts(state->ingest);
	numbers->stacks = stacks_count(state->stacks);
	numbers->stacks_folded = stacks_folded(state->stacks);
	numbers->binaries = binaries_count(state->binaries);
	numbers->binaries_refused = binaries_refused(state->binaries);
	numbers->maps = processes_counts(state->processes);
	if (state->channels)
		numbers->channels = channels_counts(state->channels);
	numbers->ended = state->feed->ended;
	pthread_mutex_unlock(&state->lock);
	count_refills(numbers);
	numbers->symbols_unreadable = symbols_unreadable(state->symbols);
	numbers->names_late = symbols_late(state->symbols);
	numbers->uptime_seconds = (double)(clock_monotonic_ns() - state->start_monotonic_ns) / 1e9;
}

void numbers_end(struct numbers *numbers)
{
	free(numbers->totals.processes);
}
