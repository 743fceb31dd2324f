/* SPDX-License-Identifier: GPL-2.0-only */
/* A sample in habd: its record, pending until its window ends, then summed up. */
#ifndef HABD_SAMPLE_H
#define HABD_SAMPLE_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "bpf/records.h"
#include "core/arithmetic.h"

/*
 * The stack of a sample, and all else that distinguishes it. Keys are compared byte by byte: what
 * follows the NUL of a string is 0.
 */
struct stack_key {
	uint32_t pid;
	uint32_t kind; /* enum hab_event_kind, or HAB_KIND_GROWTH */
	uint64_t owner; /* see core/owner.h; of a file that does not tell it: the uid */
	uint64_t cgroup_id;
	char comm[HAB_COMM_LEN]; /* this and the next two: clean */
	char heap[HAB_NAME_LEN];
	char tag[HAB_TAG_LEN];
	uint32_t nr_frames;
	uint32_t uid;
	uint64_t frames[]; /* leaf first, see FRAME() */
};

static inline size_t stack_key_size(const struct stack_key *key)
{
	return offsetof(struct stack_key, frames) + key->nr_frames * sizeof(key->frames[0]);
}

/*
 * A sample from its record to the end of its window. The record is a copy, in which @bytes and
 * @interval are limited and @bytes of a sample by bytes are those of the object. It has its frames
 * only as long as the sample waits for its thread's stack.
 */
struct sample {
	uint64_t taken_ns;     /* when its record was read; clock of the feed */
	struct stack_key *key; /* NULL: it waits, or its record is a HAB_RECORD_REPLACED */
	struct hab_record_sample record;
};

static inline void sample_free(struct sample *sample)
{
	free(sample->key);
	free(sample);
}

/* Objects that are not freed, estimated from live samples. */
struct in_use {
	uint64_t samples; /* live ones */
	uint64_t bytes;
	uint64_t exact;		 /* bytes of these that are no estimate: @variance is of the rest */
	uint64_t objects;	 /* in 2^-STACKS_EVENT_SHIFT */
	uint64_t looked_at;	 /* bytes of these of which it is known what is in memory; 0: none */
	uint64_t resident;	 /* bytes of @looked_at that are in memory */
	double variance;	 /* of bytes, itself estimated */
	double objects_variance; /* of the number of objects */
};

/* Sums over samples. */
struct stack_counts {
	uint64_t samples;
	uint64_t bytes;
	uint64_t weight;
	uint64_t estimate; /* of bytes / p, see sample_counts() */
	uint64_t events;   /* of 1 / p, in 2^-STACKS_EVENT_SHIFT: objects, in samples by bytes */
	double variance;   /* of estimate, itself estimated: sum of bytes^2 (1 - p) / p^2 */
	double events_variance; /* likewise of the number of events: sum of (1 - p) / p^2 */
};

#define STACKS_EVENT_SHIFT 16

/*
 * The probability that the program sampled so many bytes: the draw has no memory, so the interval
 * alone decides (core/throttle/interval.h). Other events, whose interval is 0, are certain.
 */
static inline double drawn_probability(uint64_t bytes, uint64_t interval)
{
	return interval ? -expm1(-(double)bytes / (double)interval) : 1;
}

/* A value as an element of a sum: rounded to the nearest, at most the highest number. */
static inline uint64_t sample_sum(double value)
{
	value = round(value);
	return value < 0x1p64 ? (uint64_t)value : UINT64_MAX;
}

static inline bool in_use_any(const struct in_use *in_use)
{
	return in_use->objects || in_use->bytes;
}

/* The part of the bytes that is in memory; below 0: it is not known. */
static inline double in_use_resident(const struct in_use *in_use)
{
	if (!in_use->looked_at)
		return -1;
	return (double)min(in_use->resident, in_use->looked_at) / (double)in_use->looked_at;
}

static inline void in_use_add(struct in_use *sum, const struct in_use *more)
{
	sum->samples += more->samples;
	sum->bytes = hab_add_saturated(sum->bytes, more->bytes);
	sum->exact = hab_add_saturated(sum->exact, more->exact);
	sum->objects = hab_add_saturated(sum->objects, more->objects);
	sum->looked_at = hab_add_saturated(sum->looked_at, more->looked_at);
	sum->resident = hab_add_saturated(sum->resident, more->resident);
	sum->variance += more->variance;
	sum->objects_variance += more->objects_variance;
}

/* Sums stop at the highest number. A difference from such a sum is not exact, and never below 0. */
static inline void counts_add(struct stack_counts *sum, const struct stack_counts *more)
{
	sum->samples += more->samples;
	sum->bytes = hab_add_saturated(sum->bytes, more->bytes);
	sum->weight = hab_add_saturated(sum->weight, more->weight);
	sum->estimate = hab_add_saturated(sum->estimate, more->estimate);
	sum->events = hab_add_saturated(sum->events, more->events);
	sum->variance += more->variance;
	sum->events_variance += more->events_variance;
}

/*
 * The sums of a profile fit into 63 bits, which readers have: @more is cut off to what fits. The
 * largest is added last, so that only the largest are cut off.
 */
static inline void counts_add_cut_off(struct stack_counts *sum, struct stack_counts *more)
{
	more->samples = min(more->samples, INT64_MAX - sum->samples);
	more->bytes = min(more->bytes, INT64_MAX - sum->bytes);
	more->weight = min(more->weight, INT64_MAX - sum->weight);
	more->estimate = min(more->estimate, INT64_MAX - sum->estimate);
	more->events = min(more->events, INT64_MAX - sum->events);
	counts_add(sum, more);
}

static inline void counts_subtract(struct stack_counts *sum, const struct stack_counts *less)
{
	sum->samples -= min(sum->samples, less->samples);
	sum->bytes -= min(sum->bytes, less->bytes);
	sum->weight -= min(sum->weight, less->weight);
	sum->estimate -= min(sum->estimate, less->estimate);
	sum->events -= min(sum->events, less->events);
	sum->variance -= less->variance;
	sum->events_variance -= less->events_variance;
}

#endif /* HABD_SAMPLE_H */
