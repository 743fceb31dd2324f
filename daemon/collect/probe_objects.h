/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Processes whose own allocator tells a sample of its objects by the probes of otel_memory. Each
 * has its live samples in a table as of a channel, which is written here instead of by the process.
 */
#ifndef HABD_PROBE_OBJECTS_H
#define HABD_PROBE_OBJECTS_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/collect/in_use.h"

struct probed;

struct probed_process {
	uint32_t pid;
	uint32_t uid;
	uint64_t owner;
	uint64_t samples;
	uint64_t bytes; /* allocated, estimated */
	char comm[HAB_COMM_LEN];
};

typedef void (*probed_visit)(void *context, const struct probed_process *process);

/* The caller of all these holds the daemon's lock. */
struct probed *probed_new(struct live *live);
void probed_free(struct probed *probed);
/*
 * Completes the sample of the record, and makes its object live. False: it is not to be counted:
 * the process has a channel, by which it tells more; or there are too many processes.
 */
bool probed_alloc(struct probed *probed, struct hab_record_alloc *record);
void probed_free_object(struct probed *probed, const struct hab_record_free *record);
/* Forgets the process: it has a channel now, and is told of by that. */
void probed_end(struct probed *probed, uint32_t pid);
/* Forgets processes some time after their end. */
void probed_tidy(struct probed *probed, uint64_t now_ns);
void probed_visit_processes(const struct probed *probed, probed_visit visit, void *context);

#endif /* HABD_PROBE_OBJECTS_H */
