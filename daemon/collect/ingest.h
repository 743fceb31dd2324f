/* SPDX-License-Identifier: GPL-2.0-only */
/* From records to samples with their stacks. */
#ifndef HABD_INGEST_H
#define HABD_INGEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/collect/pending.h"
#include "daemon/collect/probe_objects.h"
#include "daemon/collect/process_maps.h"

struct ingest_counts {
	uint64_t samples;   /* well-formed samples that replace no other one */
	uint64_t joined;    /* of these: with the stack that their thread sent */
	uint64_t alone;	    /* of these: with the kernel's stack, since no other came */
	uint64_t growth;    /* of these: of growth, with the kernel's stack */
	uint64_t late;	    /* stacks whose sample does not wait any more */
	uint64_t malformed; /* records of a wrong type or size */
	uint64_t heaps;	    /* HAB_RECORD_HEAP */
};

struct ingest;

/* The caller of all these holds the daemon's lock. */
struct ingest *ingest_new(struct processes *processes, struct stack_table *stacks);
void ingest_free(struct ingest *ingest);
/* True if the record is a sample that counts: well-formed, and replaces no other one. */
bool ingest_record(struct ingest *ingest, const void *data, size_t size, uint64_t now_ns);
/* Samples that have waited long enough for their thread's stack get the kernel's. */
void ingest_flush(struct ingest *ingest, uint64_t now_ns);
/* No record follows. */
void ingest_flush_all(struct ingest *ingest);
/* Processes with the probes of otel_memory, whose records come here. */
struct probed *ingest_probed(const struct ingest *ingest);
const struct ingest_counts *ingest_counts(const struct ingest *ingest);
const struct pending_counts *ingest_pending_counts(const struct ingest *ingest);

#endif /* HABD_INGEST_H */
