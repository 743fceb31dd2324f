/* SPDX-License-Identifier: GPL-2.0-only */
/* The layout of a JFR chunk. */
#ifndef HABD_JFR_H
#define HABD_JFR_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

/* Numbers of types; 0 and 1 are the events with the metadata and with the constant pools. */
enum jfr_type {
	JFR_METADATA,
	JFR_POOLS,
	JFR_BOOLEAN,
	JFR_INT,
	JFR_LONG,
	JFR_STRING,
	JFR_THREAD,
	JFR_THREAD_GROUP,
	JFR_CLASS,
	JFR_CLASS_LOADER,
	JFR_PACKAGE,
	JFR_SYMBOL,
	JFR_METHOD,
	JFR_STACK_TRACE,
	JFR_STACK_FRAME,
	JFR_FRAME_TYPE,
	JFR_LABEL,
	JFR_DESCRIPTION,
	JFR_CATEGORY,
	JFR_CONTENT_TYPE,
	JFR_TIMESTAMP,
	JFR_DATA_AMOUNT,
	JFR_IN_NEW_TLAB,
	JFR_OUTSIDE_TLAB,
	JFR_SAMPLE,
	JFR_DATA_LOSS,
	JFR_TYPES,
};

/* A chunk that is being written to a stream that can seek; positions count from its start. */
struct jfr_chunk {
	FILE *out;
	off_t start;
};

struct jfr_times {
	uint64_t start_ns; /* since 1970 */
	uint64_t duration_ns;
	uint64_t start_ticks; /* a tick is a nanosecond */
};

void jfr_number(FILE *out, uint64_t number);
/* Writes several numbers, the fields of an event or of a constant. */
#define jfr_numbers(out, ...)                            \
	jfr_list(out, (const uint64_t[]){ __VA_ARGS__ }, \
		 sizeof((const uint64_t[]){ __VA_ARGS__ }) / sizeof(uint64_t))
void jfr_list(FILE *out, const uint64_t *numbers, size_t count);
void jfr_string(FILE *out, const char *string);

void jfr_begin(struct jfr_chunk *chunk, FILE *out);
/* Begins an event and returns its position, for jfr_event_end(). */
size_t jfr_event_begin(struct jfr_chunk *chunk, enum jfr_type type);
void jfr_event_end(struct jfr_chunk *chunk, size_t event);
/* Writes the description of all types, and the header. pools: the position of that event. */
void jfr_end(struct jfr_chunk *chunk, size_t pools, const struct jfr_times *times);

#endif /* HABD_JFR_H */
