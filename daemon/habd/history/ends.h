/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Profiles of processes that were ended by a signal or for want of memory: what their collectors
 * know of them at that moment, in the directory of the history.
 */
#ifndef HABD_ENDS_H
#define HABD_ENDS_H

#include "daemon/habd/history/writer.h"
#include "daemon/habd/state/state.h"

/*
 * What collectors know of a process that has ended they keep so long, so that it can be asked for.
 */
#define ENDS_KEPT_MS 1000

struct ends;

/* Starts the thread that writes. NULL after a sentence. */
struct ends *ends_start(struct state *state, struct history *history);
/* Any thread may call it. It does not wait. */
void ends_add(struct ends *ends, const struct hab_record_end *end);
/* NULL: does nothing. */
void ends_stop(struct ends *ends);

#endif /* HABD_ENDS_H */
