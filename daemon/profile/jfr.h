/* SPDX-License-Identifier: GPL-2.0-only */
/* The parts of a JFR chunk that are the same for each: numbers, header, metadata. */
#ifndef HABD_JFR_H
#define HABD_JFR_H

#include <stddef.h>
#include <stdint.h>

#include "daemon/shared/util.h"

/* Numbers of the types in our chunks; 0 and 1 are the metadata's and the constant pools'. */
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

/* A chunk that is being written; positions are counted from its start. */
struct jfr_chunk {
	struct text *out;
	size_t start; /* of the chunk in out */
};

struct jfr_times {
	uint64_t start_ns; /* since 1970 */
	uint64_t duration_ns;
	uint64_t start_ticks; /* a tick is a nanosecond */
};

void jfr_number(struct text *out, uint64_t number);
void jfr_string(struct text *out, const char *string);

void jfr_begin(struct jfr_chunk *chunk, struct text *out);
/* What is between them is one event: returns its position, takes it back. */
size_t jfr_event_begin(struct jfr_chunk *chunk, enum jfr_type type);
void jfr_event_end(struct jfr_chunk *chunk, size_t event);
/* The event that describes all types: its position. */
size_t jfr_metadata(struct jfr_chunk *chunk, uint64_t ticks);
/* Writes the metadata and then the header, as pools is the position of the pools. */
void jfr_end(struct jfr_chunk *chunk, size_t pools, const struct jfr_times *times);

#endif /* HABD_JFR_H */
