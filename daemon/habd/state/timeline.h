/* SPDX-License-Identifier: GPL-2.0-only */
/* The timeline: what each process has allocated in each ten seconds of the last hour. */
#ifndef HABD_TIMELINE_H
#define HABD_TIMELINE_H

#include <stdbool.h>

#include "daemon/collect/stacks.h"

/* An owner has so many processes in a point; its further ones are one sum without a pid. */
#define TIMELINE_PROCESSES 16u
/*
 * A point has so many entries. If its owners had more, each has as many processes as have room, and
 * the sum. If the sums alone would take half of the room, they are one of owner TIMELINE_MANY.
 */
#define TIMELINE_ENTRIES 512u
#define TIMELINE_MANY	 UINT32_MAX

#define TIMELINE_STEP_NS 10000000000ull

/* A process of an owner; another user makes another one of it. Events of each kind are apart. */
struct timeline_entry {
	uint32_t pid; /* 0: further processes of the owner */
	uint32_t uid; /* of a sum: the owner; of a container without meaning */
	uint32_t kind;
	char comm[HAB_COMM_LEN]; /* its name then */
	uint32_t rank;		 /* among its owner's, while the point is made; the largest has 0 */
	uint64_t bytes;		 /* estimated */
	uint64_t in_use;	 /* bytes at the end, estimated */
	uint64_t owner;
};

struct timeline_point {
	uint64_t start_ns; /* CLOCK_REALTIME */
	uint64_t duration_ns;
	struct timeline_entry *entries;
	unsigned int count;
};

/* What stacks have in a point: an entry for each. */
struct timeline_copy {
	uint64_t start_ns, duration_ns;
	struct timeline_entry *entries;
	unsigned int count, room;
};

void timeline_copy_add(struct timeline_copy *copy, const struct stack_key *key, uint64_t bytes,
		       uint64_t in_use);
/* The processes with the most bytes of each user. Frees the entries of the copy. */
struct timeline_point timeline_sum_up(struct timeline_copy *copy);

struct timeline;

struct timeline_time {
	uint64_t realtime_ns, monotonic_ns;
};

struct timeline_time timeline_now(void);

/* The caller of these holds the daemon's lock. */
struct timeline *timeline_new(struct stack_table *stacks, struct timeline_time now);
void timeline_free(struct timeline *timeline, struct stack_table *stacks);
/*
 * Copies what the stacks have since the last point, if ten seconds of the clock are over; else
 * false. timeline_sum_up() makes a point of it, which timeline_add() adds. The point of an hour ago
 * goes then.
 */
bool timeline_copy(struct timeline *timeline, struct stack_table *stacks, struct timeline_time now,
		   struct timeline_copy *copy);
void timeline_add(struct timeline *timeline, struct timeline_point point);
/* All points, in the order of adding. They do not change, and are valid until timeline_put(). */
const struct timeline_point **timeline_take(const struct timeline *timeline, unsigned int *count);

/* The caller of this needs no lock. */
void timeline_put(const struct timeline_point **points, unsigned int count);

/* Frees copies of points. */
void timeline_points_free(struct timeline_point *points, unsigned int count);

#endif /* HABD_TIMELINE_H */
