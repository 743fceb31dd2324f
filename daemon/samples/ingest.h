/* SPDX-License-Identifier: GPL-2.0-only */
/* From records to the table of stacks. */
#ifndef HABD_INGEST_H
#define HABD_INGEST_H

#include <stddef.h>
#include <stdint.h>

#include "daemon/symbols/binaries.h"
#include "daemon/samples/pending.h"
#include "daemon/symbols/processes.h"
#include "daemon/samples/stacks.h"

struct ingest_counts {
	uint64_t samples;   /* well-formed HAB_RECORD_SAMPLE that replace no other one */
	uint64_t joined;    /* that got the stack their thread sent */
	uint64_t alone;	    /* that used the kernel's stack */
	uint64_t late;	    /* HAB_RECORD_STACK without a waiting sample */
	uint64_t malformed; /* records of a wrong type or length */
	uint64_t heaps;	    /* HAB_RECORD_HEAP */
};

struct ingest;

/* The caller of all these holds the daemon's lock. */
struct ingest *ingest_new(struct binaries *binaries, struct processes *processes,
			  struct stack_table *stacks);
void ingest_free(struct ingest *ingest);
void ingest_record(struct ingest *ingest, const void *data, size_t size, uint64_t now_ns);
/* Gives up waiting for the stacks of samples that have waited long enough. */
void ingest_flush(struct ingest *ingest, uint64_t now_ns);
void ingest_flush_all(struct ingest *ingest);
const struct ingest_counts *ingest_counts(const struct ingest *ingest);
const struct hold_counts *ingest_hold_counts(const struct ingest *ingest);

#endif /* HABD_INGEST_H */
