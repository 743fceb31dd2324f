// SPDX-License-Identifier: GPL-2.0-only
/* The tables of habd: made, brought up to date, freed. */
#include "daemon/state/state.h"

#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "daemon/shared/util.h"

#define TOTALS_NS 1000000000ull
#define FOLD_NS	  3000000000ull
#define RECENT_NS 5000000000ull

void state_begin(struct state *state, unsigned int stacks, unsigned int debuginfod_seconds)
{
	unsigned int i;

	memset(state, 0, sizeof(*state));
	pthread_mutex_init(&state->render, NULL);
	pthread_mutex_init(&state->lock, NULL);
	state->binaries = binaries_new();
	state->processes = processes_new(state->binaries);
	state->stacks = stacks_new(stacks);
	state->ingest = ingest_new(state->binaries, state->processes, state->stacks);
	state->symbols = symbols_new(debuginfod_seconds);
	state->totals = totals_new();
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
	symbols_free(state->symbols);
	ingest_free(state->ingest);
	stacks_free(state->stacks);
	processes_free(state->processes);
	binaries_free(state->binaries);
	close(state->stop_fd);
	pthread_mutex_destroy(&state->lock);
	pthread_mutex_destroy(&state->render);
}

static void update_totals_locked(struct state *state, uint64_t now)
{
	static uint64_t totals_ns, fold_ns;

	if (now - fold_ns >= FOLD_NS) {
		totals_fold(state->totals, state->feed);
		processes_tidy(state->processes, state->feed->ops->now_ns(state->feed));
		totals_ns = 0;
		fold_ns = now;
	}
	if (now - totals_ns >= TOTALS_NS) {
		totals_read(state->totals, state->feed, now);
		missed_update(state->missed, &state->totals->now);
		totals_ns = now;
	} else {
		missed_update(state->missed, NULL);
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

void state_tick(struct state *state)
{
	uint64_t now = clock_monotonic_ns();

	pthread_mutex_lock(&state->lock);
	/* The clock of replayed records is their own. */
	ingest_flush(state->ingest, state->feed->ops->now_ns(state->feed));
	update_totals_locked(state, now);
	move_recent_locked(state, now);
	pthread_mutex_unlock(&state->lock);
}
