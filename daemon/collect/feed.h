/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A source of records and of exact totals: the module, or the broker. A feed that is NULL has none:
 * channels are all there is.
 */
#ifndef HABD_FEED_H
#define HABD_FEED_H

#include <stdbool.h>
#include <stdint.h>

#include "wire/record.h"
#include "daemon/shared/util.h"

struct feed;

struct feed_process {
	uint32_t pid;
	uint32_t interpreter; /* as in struct hab_channel; 0: none */
	bool claimed;	      /* its collector says so; else the kernel or a session has counted */
	uint64_t in_use;      /* bytes */
	uint64_t read_ns;     /* CLOCK_MONOTONIC when these were true; 0: as of all */
	struct hab_process_totals totals;
};

enum { MISSED_REFILLS, MISSED_BYTES, MISSED_SAMPLES, MISSED_COUNTS };

/* Refills, their bytes, and samples of all kinds that the kernel kept and no habd read. */
struct missed_counts {
	uint64_t of[MISSED_COUNTS];
};

struct feed_machine {
	struct hab_machine_totals machine;
	/*
	 * Hits of each BPF program that the kernel dropped before the program ran. Of stacks and
	 * heaps also what no collector got.
	 */
	uint64_t missed_events;	 /* of the kinds that are followed */
	uint64_t missed_refills; /* hits of the program that counts refills */
	uint64_t missed_stacks;
	uint64_t missed_heaps;
	uint64_t missed_replaced; /* no collector got: samples that replace one, and replacements */
	struct missed_counts missed;	  /* since the module was loaded */
	uint64_t module_refills;	  /* the same, by its own count; 0: not known */
	uint64_t module_bytes;
	uint64_t module_uncounted;	  /* bytes beyond the budgets of owners */
	struct hab_process_totals exited; /* sum over the processes that have exited */
	uint64_t nr_exited;
	struct hab_growth growth;
	uint64_t samples_lost; /* that their collector did not take */
	uint64_t untaken;      /* connections, likewise */
	uint64_t probes_lost; /* events of the probes of otel_memory, with frees beyond the pace */
	uint64_t unknown; /* connections whose process ended before its owner was known */
};

struct feed_totals {
	struct feed_machine of;
	struct feed_process *processes;
	unsigned int nr_processes;
	unsigned int room;
	uint64_t read_ns; /* CLOCK_MONOTONIC when these were true */
};

struct feed_ops {
	const char *name;
	bool module; /* the module counts the same events */
	/* Ingests the records that have come; waits at most @timeout_ms. Negative: broken. */
	int (*poll)(struct feed *feed, int timeout_ms);
	/* The clock of the records; NULL: CLOCK_MONOTONIC. */
	uint64_t (*now_ns)(struct feed *feed);
	/* Fills in @totals, which has no processes and no read_ns. The caller holds the lock. */
	void (*read)(struct feed *feed, struct feed_totals *totals);
	/* Removes an ended process and returns its last totals. The caller holds the lock. */
	bool (*remove)(struct feed *feed, uint32_t pid, struct hab_process_totals *last);
	void (*close)(struct feed *feed);
};

/* Where the records of a BPF program go. */
struct feed_sink {
	void (*take)(void *context, const void *record, size_t size);
	void *context;
};

struct feed {
	const struct feed_ops *ops;
	int fd;	    /* readable when a poll finds records; -1: there is none */
	bool ended; /* no more records will come */
};

/* 0, or an exit status after a sentence that names what is missing. */
int feed_check_module(void);
/*
 * NULL after a sentence; *code is then the exit status. @kinds: of events to follow, a bit for each
 * enum hab_event_kind; refills are always counted.
 */
struct feed *feed_open_module(const struct feed_sink *sink, unsigned int kinds, int *code);
static inline const char *feed_name(const struct feed *feed)
{
	return feed ? feed->ops->name : "channels";
}

static inline bool feed_is_module(const struct feed *feed)
{
	return feed && feed->ops->module;
}

static inline uint64_t feed_now_ns(struct feed *feed)
{
	return feed && feed->ops->now_ns ? feed->ops->now_ns(feed) : clock_monotonic_ns();
}

/* A new process at the end of @totals, to be filled in. */
static inline struct feed_process *feed_totals_add(struct feed_totals *totals)
{
	totals->processes = xgrow(totals->processes, totals->nr_processes, &totals->room,
				  sizeof(*totals->processes));
	return &totals->processes[totals->nr_processes++];
}

#endif /* HABD_FEED_H */
