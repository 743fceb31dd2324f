/* SPDX-License-Identifier: GPL-2.0-only */
/* The tables of habd and their locks, and counts of the tables. */
#ifndef HABD_STATE_H
#define HABD_STATE_H

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>

#include "daemon/collect/channels.h"
#include "daemon/collect/feed.h"
#include "daemon/habd/state/probe_files.h"
#include "daemon/habd/parts/snapshots.h"
#include "daemon/collect/ingest.h"
#include "daemon/collect/stacks.h"
#include "daemon/shared/module_files.h"
#include "daemon/habd/state/rss.h"
#include "daemon/habd/state/timeline.h"
#include "daemon/habd/state/totals.h"
#include "daemon/collect/binaries.h"
#include "daemon/collect/process_maps.h"
#include "daemon/collect/symbols.h"

#define PROFILES_AT_ONCE 4

/*
 * Two marks, so that "recent" is at least 5 and at most 10 seconds. They are moved at multiples of
 * 5 seconds of CLOCK_MONOTONIC: so in all collectors it begins at the same moment.
 */
#define RECENT_MARKS 2
#define RECENT_NS    5000000000ull

/*
 * The main thread reads the feed, and in a collector of the machine the channels. habd of a user
 * has a thread for these and one for each listening socket: users of all kinds connect there, and
 * what they send may wait. Each HTTP connection has a thread, too, and so has the history.
 *
 * lock guards binaries, processes, stacks, ingest, channels, totals, missed, timeline, recent,
 * recent_ns, evict_ns, close_ns, what is in use and rss.
 * A turn limits the memory of profiles, see state_turn_begin(); turns guards its numbers. No lock
 * is held while a profile is named. render is held while the stacks of a profile are copied and
 * sorted, and while its text is made: each takes as much memory again. A thread takes them in this
 * order: a turn, render, lock.
 * The other fields are set before the threads start.
 */
struct state {
	const char *socket; /* the Unix socket */
	char address[64];   /* of HTTP over TCP; "": none */
	uint16_t port;
	uint32_t kinds; /* of events that are followed, a bit each */
	pthread_mutex_t turns;
	pthread_cond_t turn_ended;
	uint64_t turns_begun, turns_ended;
	pthread_mutex_t render;
	pthread_mutex_t lock;
	struct binaries *binaries;
	struct processes *processes;
	struct stack_table *stacks;
	struct ingest *ingest;
	struct symbols *symbols;
	struct totals *totals;
	struct timeline *timeline;
	struct feed *feed;	   /* NULL: none */
	struct channels *channels; /* NULL: none are taken */
	/* A collector of the machine has @memory and @owner, the viewer @rss and @snapshots. */
	struct hab_channel *memory;
	uint64_t owner;
	struct rss *rss; /* of all processes */
	struct probe_files *probe_files; /* of a collector with --otel */
	struct snapshots *snapshots; /* its own tables are empty: the collectors have them */
	bool has_channels;	     /* of the machine: to be shown, as the next */
	enum probe_owners follows_probes;
	pid_t pid;		     /* of habd, to be shown */
	uint64_t start_ns;	   /* CLOCK_REALTIME */
	uint64_t start_monotonic_ns;
	uint64_t evict_ns;  /* no binary is evicted before */
	uint64_t close_ns;  /* when files were last closed */
	uint64_t busy_ns;      /* when this collector last had sessions or samples */
	uint64_t busy_samples; /* how many it had had then */
	uint64_t in_use_bytes; /* by the processes of this habd's own tables */
	uint64_t in_use_ns;    /* when that was counted */
	struct stack_mark *recent[RECENT_MARKS]; /* the oldest first */
	uint64_t recent_ns[RECENT_MARKS];
	uint64_t refused_heaps; /* of the viewer: by the module, before this habd */
	int stop_fd; /* readable once habd ends */
};

/* Makes the tables, all but feed and channels. Before the program has threads. */
void state_begin(struct state *state, unsigned int stacks, unsigned int debuginfod_seconds);
/* Frees the tables, all but feed and channels. */
void state_end(struct state *state);
/* Brings the tables up to date; the main thread calls it several times a second. */
void state_tick(struct state *state);
/* When "recent" begins, CLOCK_MONOTONIC; and the marks are those of now. The lock is held. */
uint64_t recent_start_ns(uint64_t now);
void state_move_recent_locked(struct state *state, uint64_t now);

/*
 * A turn begins before a profile is collected, and ends once the profile is freed. There are
 * PROFILES_AT_ONCE, and they begin in the order of the calls: so the history's comes, however many
 * clients there are.
 */
void state_turn_begin(struct state *state);
void state_turn_end(struct state *state);

/* The counts that /metrics, /v1/top and /v1/status show, taken at one moment. */
struct numbers {
	struct module_state module; /* only known[] and value[] */
	struct totals totals;	    /* its lists are copies */
	/* Since the module was loaded; without the module, since habd was started. */
	uint64_t refills, refill_bytes;
	uint64_t lost; /* events that are in no profile though the throttler kept them */
	struct part_counts counts; /* of all collectors */
	struct snapshot_state *states; /* of each; NULL: there are no others */
	unsigned int nr_states;
	double uptime_seconds;
};

/* Takes the daemon's lock. numbers_end() frees. */
void numbers_begin(struct numbers *numbers, struct state *state);
void numbers_end(struct numbers *numbers);

#endif /* HABD_STATE_H */
