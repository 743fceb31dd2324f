// SPDX-License-Identifier: GPL-2.0-only
/*
 * Takes all counts at one moment, so that they are consistent, and so that the daemon's lock is
 * free while they are written to a client.
 */
#include "daemon/state/numbers.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/shared/util.h"

void numbers_begin(struct numbers *numbers, struct state *state)
{
	struct totals *totals = state->totals;

	memset(numbers, 0, sizeof(*numbers));
	if (state->feed->ops->module)
		module_numbers_read(&numbers->module);
	pthread_mutex_lock(&state->lock);
	totals_read(totals, state->feed, clock_monotonic_ns());
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
	numbers->maps_unreadable = processes_unreadable(state->processes);
	numbers->ended = state->feed->ended;
	pthread_mutex_unlock(&state->lock);
	numbers->symbols_unreadable = symbols_unreadable(state->symbols);
	numbers->uptime_seconds = (double)(clock_monotonic_ns() - state->start_monotonic_ns) / 1e9;
}

void numbers_end(struct numbers *numbers)
{
	free(numbers->totals.processes);
}

uint64_t numbers_refills(const struct numbers *numbers)
{
	return numbers->module.known[MODULE_REFILLS] ?
		       numbers->module.value[MODULE_REFILLS] :
		       numbers->totals.now.machine.refills + numbers->totals.now.missed_events;
}

uint64_t numbers_refill_bytes(const struct numbers *numbers)
{
	return numbers->module.known[MODULE_REFILL_BYTES] ?
		       numbers->module.value[MODULE_REFILL_BYTES] :
		       numbers->totals.now.machine.bytes;
}

uint64_t numbers_lost(const struct numbers *numbers)
{
	return numbers->totals.now.machine.lost + numbers->totals.now.missed_events;
}
