/* SPDX-License-Identifier: GPL-2.0-only */
/* What passed while no habd read: it is in the module's totals, and in no profile. */
#ifndef HABD_MISSED_H
#define HABD_MISSED_H

#include <stdint.h>

struct feed_totals;

struct missed_counts {
	uint64_t refills;
	uint64_t bytes;	  /* of them */
	uint64_t samples; /* of events of all kinds, that the kernel had kept */
};

struct missed;

/*
 * After the feed was opened: from now on all is read. Asks the module; NULL if it tells nothing.
 * socket_path: beside it a file remembers what was read. Says what was missed since the last habd.
 */
struct missed *missed_new(const char *socket_path, const struct feed_totals *totals);
void missed_free(struct missed *missed);

/* All up to now was read. totals: asked of the feed just before, or NULL. */
void missed_update(struct missed *missed, const struct feed_totals *totals);
/* Since the module was loaded. */
struct missed_counts missed_counts(const struct missed *missed);

#endif /* HABD_MISSED_H */
