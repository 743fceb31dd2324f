/* SPDX-License-Identifier: GPL-2.0-only */
/* The exact counts of the machine and of each process, and their rates. */
#ifndef HABD_TOTALS_H
#define HABD_TOTALS_H

#include "daemon/collect/feed.h"

struct totals_process {
	uint32_t pid;
	uint32_t interpreter; /* as in struct hab_channel; 0: none */
	struct hab_process_totals totals; /* comm is clean */
	struct hab_process_totals before; /* when the rates were last worked out */
	uint64_t before_ns;		  /* this time; 0: never */
	double bytes_per_second;
	double refills_per_second;
	double restarts_per_second;
	uint64_t in_use_bytes; /* two seconds old at most: a collector shows it each 0.5 s */
};

struct totals {
	struct feed_totals now;		  /* the feed's last answer */
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
/* Reads the feed into now. The lists and the rates stay as they are. @feed: NULL, or as opened. */
void totals_read_feed(struct totals *totals, struct feed *feed, uint64_t now_ns);
/*
 * Reads the feed, and works the rates out if the last time is a second ago. @add adds the
 * processes that have a channel: the bytes of one that has only that are those that it has
 * allocated. A process of an owner is listed once: what a collector claims of one that the kernel
 * counts are its interpreter and what is in use, and what it claims of processes of others changes
 * none of theirs.
 */
void totals_read(struct totals *totals, struct feed *feed,
		 void (*add)(void *context, struct feed_totals *totals), void *context,
		 uint64_t now_ns);
/*
 * Chooses processes in the order of the list, as choose_rows() does. @wanted: which may be chosen.
 * Returns how many.
 */
unsigned int totals_choose(const struct totals *totals, unsigned int most,
			   bool (*wanted)(const void *context,
					  const struct totals_process *process),
			   const void *context, const struct totals_process **chosen);
/* Moves exited processes from the feed's table into the sum. */
void totals_fold(struct totals *totals, struct feed *feed);

#endif /* HABD_TOTALS_H */
