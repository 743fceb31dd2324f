/* SPDX-License-Identifier: GPL-2.0-only */
/* The counts that /metrics, /v1/top and /v1/status show, taken at one moment. */
#ifndef HABD_NUMBERS_H
#define HABD_NUMBERS_H

#include "daemon/shared/module_files.h"
#include "daemon/state/state.h"

struct numbers {
	struct module_state module; /* only known[] and value[] */
	struct totals totals;	    /* its lists are copies */
	struct missed_counts missed;
	struct ingest_counts ingest;
	struct pending_counts pending;
	unsigned int stacks;
	uint64_t stacks_folded;
	unsigned int binaries;
	uint64_t binaries_refused;
	uint64_t maps_unreadable;
	uint64_t symbols_unreadable;
	bool ended;
	double uptime_seconds;
};

/* Takes the daemon's lock. numbers_end() frees. */
void numbers_begin(struct numbers *numbers, struct state *state);
void numbers_end(struct numbers *numbers);

/* Since the module was loaded; without the module, since habd was started. */
uint64_t numbers_refills(const struct numbers *numbers);
uint64_t numbers_refill_bytes(const struct numbers *numbers);
/* Events that are in no profile though the throttler kept them. */
uint64_t numbers_lost(const struct numbers *numbers);

#endif /* HABD_NUMBERS_H */
