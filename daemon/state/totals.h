/* SPDX-License-Identifier: GPL-2.0-only */
/* The exact counts of the machine and of each process, and their rates. */
#ifndef HABD_TOTALS_H
#define HABD_TOTALS_H

#include "daemon/channels/channels.h"
#include "daemon/feeds/feed.h"

struct totals_process {
	uint32_t pid;
	struct hab_process_totals totals; /* comm is clean */
	struct hab_process_totals before; /* when the rates were last worked out */
	double bytes_per_second;
	double refills_per_second;
	double restarts_per_second;
	uint64_t in_use_bytes; /* kept by state.c, a second old at most when numbers_begin() reads */
};

struct totals {
	struct feed_totals now;		  /* the feed's last answer */
	struct hab_process_totals exited; /* sum over the processes that have exited */
	uint64_t nr_exited;
	unsigned int zombies_at; /* the next process to be looked at, modulo their number */
	/* Sorted by bytes a second, then by bytes; the highest first. */
	struct totals_process *processes;
	unsigned int nr_processes;
	uint64_t rates_ns; /* when the rates were last worked out; 0: never */
	struct hab_machine_totals before;
	double refills_per_second;
	double bytes_per_second;
	double sampled_per_second;
};

/* The caller of all these holds the daemon's lock. */
struct totals *totals_new(void);
void totals_free(struct totals *totals);
/*
 * Reads the feed, and works the rates out if the last time is a second ago. @channels: NULL: none.
 * The bytes of a process that has only a channel are those that it has allocated.
 */
void totals_read(struct totals *totals, struct feed *feed, const struct channels *channels,
		 uint64_t now_ns);
/* Moves exited processes from the feed's table into the sum. */
void totals_fold(struct totals *totals, struct feed *feed);

#endif /* HABD_TOTALS_H */
