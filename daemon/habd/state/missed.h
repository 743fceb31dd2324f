/* SPDX-License-Identifier: GPL-2.0-only */
/* Refills and samples that no habd read: they are in the module's totals, and in no profile. */
#ifndef HABD_MISSED_H
#define HABD_MISSED_H

#include "daemon/collect/feed.h"

struct missed;

/*
 * Called once the feed is open. NULL if the module has no counts. Reads and writes a file beside
 * @socket_path. Reports what was missed since the last habd.
 */
struct missed *missed_new(const char *socket_path, const struct feed_totals *totals);
void missed_free(struct missed *missed);

/* Notes that all up to now was read. totals: read of the feed just before, or NULL. */
void missed_update(struct missed *missed, const struct feed_totals *totals);
/* Since the module was loaded. */
struct missed_counts missed_counts(const struct missed *missed);

#endif /* HABD_MISSED_H */
