/* SPDX-License-Identifier: GPL-2.0-only */
/* Where records and exact totals come from: the module, static probes, or a file. */
#ifndef HABD_FEED_H
#define HABD_FEED_H

#include <stdbool.h>
#include <stdint.h>

#include "bpf/records.h"

struct state;
struct options;
struct feed;

struct feed_process {
	uint32_t pid;
	struct hab_process_totals totals;
};

struct feed_totals {
	struct hab_machine_totals machine;
	/* Hits the kernel dropped before the program ran, of each program. */
	uint64_t missed_events;
	uint64_t missed_refills; /* those among them */
	uint64_t missed_stacks;
	uint64_t missed_heaps;
	uint64_t missed_windows;
	struct feed_process *processes;
	unsigned int nr_processes;
	unsigned int room;
};

struct feed_ops {
	const char *name;
	bool module; /* what the module counts is the same */
	/* Hands what has come to ingest_record(); waits at most so long. Negative: broken. */
	int (*poll)(struct feed *feed, int timeout_ms);
	/* The clock of its records. */
	uint64_t (*now_ns)(struct feed *feed);
	/* Replaces all of totals. The caller holds the daemon's lock. */
	void (*read)(struct feed *feed, struct feed_totals *totals);
	/* Takes the process out and gives what it had last. The caller holds the lock. */
	bool (*forget)(struct feed *feed, uint32_t pid, struct hab_process_totals *last);
	/* No more records will come (only of a file). */
	bool (*ended)(struct feed *feed);
	void (*close)(struct feed *feed);
};

struct feed {
	const struct feed_ops *ops;
	char about[400]; /* where it comes from, for people; "" if the name says it */
};

/* 0, or what to exit with, after a sentence: something is missing. */
int feed_check_bpf(void);
int feed_check_usdt(struct options *options);
/* NULL after a sentence; *code is then what to exit with. */
struct feed *feed_open_bpf(struct state *state, int *code);
struct feed *feed_open_usdt(struct state *state, int *code);
struct feed *feed_open_replay(struct state *state, const char *path, int *code);

struct feed_process *feed_totals_row(struct feed_totals *totals);

#endif /* HABD_FEED_H */
