/* SPDX-License-Identifier: GPL-2.0-only */
/* The tables of habd and their locks. */
#ifndef HABD_STATE_H
#define HABD_STATE_H

#include <pthread.h>
#include <stdint.h>

#include "daemon/feeds/feed.h"
#include "daemon/samples/ingest.h"
#include "daemon/samples/stacks.h"
#include "daemon/state/missed.h"
#include "daemon/state/totals.h"
#include "daemon/symbols/binaries.h"
#include "daemon/symbols/processes.h"
#include "daemon/symbols/symbols.h"

/* Two marks, so that "recent" is at least 5 and at most 10 seconds. */
#define RECENT_MARKS 2

/*
 * The main thread reads the feed; each HTTP connection has a thread of its own.
 *
 * lock guards binaries, processes, stacks, ingest, totals, missed, recent and recent_ns.
 * render guards symbols. It is held while a profile is made, so that one profile at a time takes
 * memory. A thread that needs both locks takes render first.
 * The other fields are set before the threads start.
 */
struct state {
	const char *socket; /* the Unix socket */
	char address[64];   /* of HTTP over TCP; "": none */
	uint16_t port;
	pthread_mutex_t render;
	pthread_mutex_t lock;
	struct binaries *binaries;
	struct processes *processes;
	struct stack_table *stacks;
	struct ingest *ingest;
	struct symbols *symbols;
	struct totals *totals;
	struct missed *missed; /* NULL: the feed is not the module */
	struct feed *feed;
	uint64_t start_ns; /* CLOCK_REALTIME */
	uint64_t start_monotonic_ns;
	struct stack_mark *recent[RECENT_MARKS]; /* the oldest first */
	uint64_t recent_ns[RECENT_MARKS];
	int stop_fd; /* readable once habd ends */
};

/* Makes the tables, all but feed and missed. Before the program has threads. */
void state_begin(struct state *state, unsigned int stacks, unsigned int debuginfod_seconds);
/* Frees the tables, all but feed. */
void state_end(struct state *state);
/* Brings the tables up to date; the main thread calls it several times a second. */
void state_tick(struct state *state);

#endif /* HABD_STATE_H */
