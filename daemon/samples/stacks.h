/* SPDX-License-Identifier: GPL-2.0-only */
/* The table of stacks: how often each was seen, and how much that stands for. */
#ifndef HABD_STACKS_H
#define HABD_STACKS_H

#include <stdint.h>

#include "bpf/records.h"

#define STACKS_MAX_DEFAULT 65536
#define STACKS_EVENT_SHIFT 16 /* fractional bits of stack_counts.events */

struct stack_counts {
	uint64_t samples;
	uint64_t bytes;	   /* of the sampled events themselves */
	uint64_t weight;   /* bytes of the thread between samples, as JFR has it */
	uint64_t estimate; /* sum of bytes / probability */
	uint64_t events;   /* sum of 1 / probability, in 2^-STACKS_EVENT_SHIFT */
	double variance;   /* of estimate, itself estimated: sum of bytes^2 (1 - p) / p^2 */
};

static inline void counts_add(struct stack_counts *sum, const struct stack_counts *more)
{
	sum->samples += more->samples;
	sum->bytes += more->bytes;
	sum->weight += more->weight;
	sum->estimate += more->estimate;
	sum->events += more->events;
	sum->variance += more->variance;
}

static inline void counts_subtract(struct stack_counts *rest, const struct stack_counts *less)
{
	rest->samples -= less->samples;
	rest->bytes -= less->bytes;
	rest->weight -= less->weight;
	rest->estimate -= less->estimate;
	rest->events -= less->events;
	rest->variance -= less->variance;
}

struct stack_key {
	uint32_t pid;
	uint32_t kind; /* enum hab_event_kind */
	uint64_t cgroup_id;
	unsigned int nr_frames;
	char comm[HAB_COMM_LEN]; /* clean; bytes after the NUL are zero */
	char heap[HAB_NAME_LEN];
	char tag[HAB_TAG_LEN];
	const uint64_t *frames; /* leaf first, see FRAME() */
};

struct stack_table;
struct sample_log;

/* What of one sample is not summed up, but logged. */
struct stack_event {
	uint64_t time_ns; /* the feed's clock */
	uint64_t object_bytes;
	uint64_t chunk_bytes;
	uint32_t tid;
};

/*
 * A point in time. What happened since is what the table has now less what the
 * mark remembers. Valid until stacks_unmark(), also across recycled entries.
 */
struct stack_mark;

typedef void (*stack_visit)(void *context, uint32_t number, const struct stack_key *key,
			    const struct stack_counts *counts);
/* number: of the stack, as stack_visit had it. counts.bytes and .variance are not known. */
typedef void (*stack_event_visit)(void *context, uint32_t number, const struct stack_event *event,
				  const struct stack_counts *counts);

/* The number of what is not final, and not in the log either. */
#define STACK_HELD UINT32_MAX

/* Hands more to the visitor, see stacks_also(). */
typedef void (*stack_more)(void *context, stack_visit visit, void *visitor);

/* The caller of all these holds the daemon's lock. */
struct stack_table *stacks_new(unsigned int cap);
void stacks_free(struct stack_table *table);
/* Adds one sample. */
void stacks_add(struct stack_table *table, const struct stack_key *key,
		const struct stack_counts *counts, const struct stack_event *event,
		uint64_t now_ns);
unsigned int stacks_count(const struct stack_table *table);
uint64_t stacks_folded(const struct stack_table *table);

struct stack_mark *stacks_mark(struct stack_table *table);
void stacks_unmark(struct stack_table *table, struct stack_mark *mark);
/* Calls visit for each stack with samples since the mark; NULL: since the start. */
void stacks_visit(struct stack_table *table, const struct stack_mark *mark, stack_visit visit,
		  void *context);
/* The same without what is not final: that will be in the table later. */
void stacks_visit_settled(struct stack_table *table, const struct stack_mark *mark,
			  stack_visit visit, void *context);
/*
 * Calls visit for each sample since the mark that the log still has, in their order. All
 * others are in the counts of stacks_visit() alone.
 */
void stacks_visit_events(struct stack_table *table, const struct stack_mark *mark,
			 stack_event_visit visit, void *context);

/* What each visit shows besides the table: what has happened and is not final. NULL: nothing. */
void stacks_also(struct stack_table *table, stack_more more, void *context);

/* bytes * 2^32 / probability, rounded to the nearest. */
uint64_t stacks_estimate(uint64_t bytes, uint64_t probability);

/* What one sample adds to the variance of the estimate. */
double stacks_variance(uint64_t bytes, uint64_t probability);

#endif /* HABD_STACKS_H */
