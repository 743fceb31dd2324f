/* SPDX-License-Identifier: GPL-2.0-only */
/* Sums over samples, and what is added to them. */
#ifndef HABD_COUNTS_H
#define HABD_COUNTS_H

#include <math.h>

#include "core/arithmetic.h"
#include "daemon/profile/types.h"

/*
 * The probability that the program sampled so many bytes: the draw has no memory, so the interval
 * alone decides (wire/interval.h). Other events, whose interval is 0, are certain.
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

static inline void profile_sample_add(struct profile_sample *sum, const struct profile_sample *more)
{
	counts_add(&sum->counts, &more->counts);
	in_use_add(&sum->in_use, &more->in_use);
}

#endif /* HABD_COUNTS_H */
