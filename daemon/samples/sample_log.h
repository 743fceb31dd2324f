/* SPDX-License-Identifier: GPL-2.0-only */
/* The latest samples one by one, for what needs their times and threads. */
#ifndef HABD_SAMPLE_LOG_H
#define HABD_SAMPLE_LOG_H

#include <stdint.h>

#define SAMPLE_LOG_ROOM 65536u /* a power of two */

struct logged_sample {
	uint64_t time_ns; /* the feed's clock */
	uint64_t weight;
	uint64_t estimate;
	uint64_t object_bytes; /* 0: not known */
	uint64_t chunk_bytes;
	uint32_t tid;
	uint32_t stack;	     /* number of the table's entry */
	uint32_t generation; /* of that entry: it may be another stack's by now */
	uint32_t reserved;
};

/*
 * Positions count all samples ever logged; those from sample_log_first() on are
 * still there. The caller holds the daemon's lock.
 */
struct sample_log;

struct sample_log *sample_log_new(void);
void sample_log_free(struct sample_log *log);
void sample_log_add(struct sample_log *log, const struct logged_sample *sample);
uint64_t sample_log_first(const struct sample_log *log);
uint64_t sample_log_end(const struct sample_log *log);
const struct logged_sample *sample_log_at(const struct sample_log *log, uint64_t position);

#endif /* HABD_SAMPLE_LOG_H */
