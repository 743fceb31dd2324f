// SPDX-License-Identifier: GPL-2.0-only
/*
 * Takes all counts at one moment, so that they are consistent, and so that
 * nothing is written to a client with the daemon's lock held.
 */
#include "daemon/habd/numbers.h"

#include <stdlib.h>
#include <string.h>

void numbers_begin(struct numbers *numbers, struct habd *habd)
{
	struct totals *totals = habd->totals;

	memset(numbers, 0, sizeof(*numbers));
	if (habd->feed->ops->module)
		module_numbers_read(&numbers->module);
	pthread_mutex_lock(&habd->lock);
	totals_read(totals, habd->feed, clock_monotonic_ns());
	numbers->totals = *totals;
	numbers->totals.now.processes = NULL;
	numbers->totals.processes = xcalloc(totals->nr_processes, sizeof(*totals->processes));
	if (totals->nr_processes)
		memcpy(numbers->totals.processes, totals->processes,
		       totals->nr_processes * sizeof(*totals->processes));
	numbers->missed = missed_counts(habd->missed);
	numbers->ingest = *ingest_counts(habd->ingest);
	numbers->pending = *ingest_pending_counts(habd->ingest);
	numbers->stacks = stacks_count(habd->stacks);
	numbers->stacks_folded = stacks_folded(habd->stacks);
	numbers->binaries = binaries_count(habd->binaries);
	numbers->binaries_refused = binaries_refused(habd->binaries);
	numbers->processes = processes_count(habd->processes);
	numbers->maps_unreadable = processes_unreadable(habd->processes);
	numbers->ended = habd->feed->ended;
	pthread_mutex_unlock(&habd->lock);
	numbers->symbols_unreadable = symbols_unreadable(habd->symbols);
	numbers->uptime_seconds = (double)(clock_monotonic_ns() - habd->start_monotonic_ns) / 1e9;
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
