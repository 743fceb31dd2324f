/* SPDX-License-Identifier: GPL-2.0-only */
/* The timeline: what each process has allocated in each ten seconds of the last hour. */
#ifndef HABD_TIMELINE_H
#define HABD_TIMELINE_H

#include <stdbool.h>

#include "daemon/samples/stacks.h"

/* Of one user, in one point; further ones of the user are summed up as one without a pid. */
#define TIMELINE_PROCESSES 16u
/* In one point, of all users; further ones are summed up as one of user TIMELINE_MANY. */
#define TIMELINE_ENTRIES 512u
#define TIMELINE_MANY	 UINT32_MAX

/* A process; an exec or another user makes another one of it. Events of each kind are apart. */
struct timeline_entry {
	uint32_t pid; /* 0: further processes of the user */
	uint32_t uid;
	uint32_t kind;
	char comm[HAB_COMM_LEN];
	uint64_t bytes;	 /* estimated */
	uint64_t in_use; /* bytes at the end, estimated */
};

struct timeline_point {
	uint64_t start_ns; /* CLOCK_REALTIME */
	uint64_t duration_ns;
	struct timeline_entry *entries;
	unsigned int count;
};

/* Sums up what a point has; timeline_sums_end() ends it. */
struct timeline_sums;
struct timeline_sums *timeline_sums_new(void);
void timeline_sums_add(struct timeline_sums *sums, const struct stack_key *key, uint64_t bytes,
		       uint64_t in_use);
/* Sets the entries of @point, the processes with the most bytes of each user; frees the sums. */
void timeline_sums_end(struct timeline_sums *sums, struct timeline_point *point);

struct timeline;

/* The caller of all these holds the daemon's lock. */
struct timeline *timeline_new(struct stack_table *stacks);
void timeline_free(struct timeline *timeline, struct stack_table *stacks);
/* Adds a point if ten seconds of the clock are over; the oldest goes after an hour. */
void timeline_update(struct timeline *timeline, struct stack_table *stacks);
/* A copy of all points, the oldest first; timeline_points_free() frees it. */
struct timeline_point *timeline_copy(const struct timeline *timeline, unsigned int *count);

void timeline_points_free(struct timeline_point *points, unsigned int count);

#endif /* HABD_TIMELINE_H */
