/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The collectors as the viewer sees them. Each answers requests over a connection that the viewer
 * makes and sends it. An answer is limited in time and size and is read like a hostile file. A
 * collector that does not answer is missing in the result, and its owner is named.
 */
#ifndef HABD_SNAPSHOTS_H
#define HABD_SNAPSHOTS_H

#include "daemon/habd/parts/part.h"
#include "daemon/profile/filter.h"
#include "daemon/profile/profile.h"
#include "daemon/collect/stacks.h"

#define SNAPSHOT_BYTES_MAX (4u << 20)
#define SNAPSHOTS_BYTES	   (8u << 20) /* of all owners in a profile: it takes a second or less */

/* An answer to /part/profile: this, the profile as gzipped pprof, then the events and weights. */
struct snapshot_head {
	uint64_t profile_bytes;
	uint64_t nr_events; /* struct logged_sample, whose @stack is the number of its sample */
	uint64_t nr_weights; /* of each sample, numbers of 64 bits; with events only */
	uint64_t folded;
	uint64_t late_names;
};

/* What is asked for. */
struct snapshot_request {
	const char *span; /* its token */
	uint64_t begun_ns; /* when it began, CLOCK_MONOTONIC; 0: with each collector */
	uint64_t start_ns; /* the same, CLOCK_REALTIME */
	const struct filter *filter;
	const uint64_t *of_owner; /* NULL: all are asked */
	bool restart;
	bool events;
};

struct snapshots;

/* Any thread may call these. */
struct snapshots *snapshots_new(void);
void snapshots_free(struct snapshots *snapshots);
/* A collector has begun. Takes the descriptors over. */
void snapshots_add(struct snapshots *snapshots, uint64_t owner, uid_t uid, int control,
		   int memory_fd);
void snapshots_remove(struct snapshots *snapshots, uint64_t owner);
/*
 * The merged profile of all collectors, with names and all kinds of events; profile_free() frees
 * it. @bytes_of_owner: the stacks of an owner but root are so few that they take about so many
 * bytes; 0: those of all owners take about SNAPSHOTS_BYTES.
 */
struct profile *snapshots_profile(struct snapshots *snapshots,
				  const struct snapshot_request *request, unsigned int bytes_of_owner);
/* Sends each collector a request without an answer. */
void snapshots_tell(struct snapshots *snapshots, const char *path);
/* The answers to a request, each with its owner. @data is valid during the call. */
typedef void (*snapshot_visit)(void *context, uint64_t owner, uid_t uid, const char *data,
			       size_t length);
void snapshots_ask(struct snapshots *snapshots, const char *path, snapshot_visit visit,
		   void *context);
/* Adds the processes with channels, as their collectors claim, each of its owner. */
void snapshots_add_processes(struct snapshots *snapshots, struct feed_totals *totals);

struct snapshot_state {
	uint64_t owner;
	uid_t uid;
	struct part_counts counts; /* as it says; each at most INT64_MAX */
	bool stuck; /* it has not moved for seconds, or did not answer a moment ago */
	uint64_t lost;
	uint64_t refused;
	uint64_t failures;
};

/* The state of each collector; returns how many. The caller frees *states. */
unsigned int snapshots_states(struct snapshots *snapshots, struct snapshot_state **states);

#endif /* HABD_SNAPSHOTS_H */
