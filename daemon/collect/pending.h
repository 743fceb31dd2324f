/* SPDX-License-Identifier: GPL-2.0-only */
/* Pending samples: those whose window is not over, and which a later one may replace. */
#ifndef HABD_PENDING_H
#define HABD_PENDING_H

#include "daemon/collect/stacks.h"

struct pending_counts {
	uint64_t replaced;   /* samples that were replaced */
	uint64_t unfinished; /* windows that were finished without a HAB_RECORD_WINDOW */
};

struct pending;

/* The caller of all these holds the daemon's lock. stacks_visit() shows pending samples, too. */
struct pending *pending_new(struct stack_table *stacks);
void pending_free(struct pending *pending);
/* A sample of a window has come; pending_add() follows when its stack has come, too. */
void pending_announce(struct pending *pending, const struct hab_record_sample *sample,
		      uint64_t now_ns);
/* Takes @sample over. One without a window goes into the table at once. */
void pending_add(struct pending *pending, struct sample *sample);
void pending_end_window(struct pending *pending, const struct hab_record_window *end,
			uint64_t now_ns);
/* Moves the samples of windows that are over into the table. */
void pending_flush(struct pending *pending, uint64_t now_ns);
void pending_flush_all(struct pending *pending);
/* The pending samples of these processes have their new names. @renamed gets sorted. */
void pending_rename(struct pending *pending, struct process_renamed *renamed, unsigned int nr);
const struct pending_counts *pending_counts(const struct pending *pending);

#endif /* HABD_PENDING_H */
