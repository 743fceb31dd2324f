/* SPDX-License-Identifier: GPL-2.0-only */
/* A sample in a collector: its record, pending until its window ends, then summed up. */
#ifndef HABD_SAMPLE_H
#define HABD_SAMPLE_H

#include <stdlib.h>

#include "daemon/profile/counts.h"

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

#endif /* HABD_SAMPLE_H */
