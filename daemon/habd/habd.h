/* SPDX-License-Identifier: GPL-2.0-only */
/* The daemon's state, and who may touch it when. */
#ifndef HABD_HABD_H
#define HABD_HABD_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "daemon/symbols/binaries.h"
#include "daemon/feeds/feed.h"
#include "daemon/shared/filter.h"
#include "daemon/samples/ingest.h"
#include "daemon/feeds/libraries.h"
#include "daemon/symbols/processes.h"
#include "daemon/habd/missed.h"
#include "daemon/profile/profile.h"
#include "daemon/shared/rate.h"
#include "daemon/samples/stacks.h"
#include "daemon/symbols/symbols.h"
#include "daemon/habd/totals.h"

#define HABD_SOCKET  "/run/hab/habd.sock"
#define HABD_ADDRESS "127.0.0.1"
#define HABD_PORT    7227

enum source {
	SOURCE_AUTO, /* the module if it is there, else static probes */
	SOURCE_MODULE,
	SOURCE_USDT,
	SOURCE_REPLAY,
};

struct options {
	enum source source;
	struct libraries libraries; /* for SOURCE_USDT */
	char address[64];	    /* a loopback address, or "" for none */
	uint16_t port;
	const char *socket;
	const char *replay;	/* NULL: from the kernel */
	char rate[RATE_LENGTH]; /* "": leave it as it is */
	unsigned int stacks;
	unsigned int events;		 /* bits 1 << enum hab_event_kind; refills always */
	unsigned int debuginfod_seconds; /* 0: not used */
	bool verbose;
};

/*
 * The main thread reads the feed; each HTTP connection has a thread of its own.
 *
 * lock guards the tables: binaries, processes, stacks, ingest, totals, missed, recent.
 * render is held while a profile is made, so that one at a time takes memory; it
 * guards symbols. Whoever needs both takes render first.
 */
struct habd {
	const struct options *options;
	pthread_mutex_t render;
	pthread_mutex_t lock;
	struct binaries *binaries;
	struct processes *processes;
	struct stack_table *stacks;
	struct ingest *ingest;
	struct symbols *symbols;
	struct totals *totals;
	struct missed *missed; /* NULL: the module tells nothing */
	struct feed *feed;
	uint64_t start_ns; /* CLOCK_REALTIME */
	uint64_t start_monotonic_ns;
	/* Two marks a while apart: "recently" is since the older one. */
	struct stack_mark *recent[2];
	uint64_t recent_ns[2];
	int stop_fd; /* readable once the daemon is to end */
};

/* options.c: 0 to go on, or the exit code + 1. */
int options_parse(struct options *options, int argc, char **argv);

/* A time span of the tables, for a profile. */
struct span {
	struct stack_mark *mark; /* NULL: since the start */
	uint64_t start_ns;
	uint64_t start_monotonic_ns;
};

void span_begin(struct habd *habd, struct span *span);
void span_end(struct habd *habd, struct span *span);
/* The whole life of the daemon. */
struct span span_all(const struct habd *habd);

/* What a profile is of. */
struct profile_head {
	struct stack_counts total;
	uint32_t kinds;	      /* a bit for each enum hab_event_kind */
	uint32_t other_kinds; /* were there, and are not in it */
	uint64_t folded;      /* samples that the filter could not look into */
};

/*
 * False if it could not be written. again: the span begins anew at the same moment, so that
 * each sample is in one of the two.
 */
bool span_write(struct habd *habd, struct span *span, const struct filter *filter,
		enum profile_format format, bool again, struct text *out,
		struct profile_head *head);

#endif /* HABD_HABD_H */
