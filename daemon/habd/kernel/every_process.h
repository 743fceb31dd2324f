/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Growth: samples of the page faults of all processes, and those that are ended
 * (bpf/every_process.bpf.c). They come beside the records of any feed, with or without the module.
 */
#ifndef HABD_EVERY_PROCESS_H
#define HABD_EVERY_PROCESS_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/collect/feed.h"

struct every_process;

/*
 * NULL after a sentence: habd goes on without growth. Needs CAP_BPF and CAP_PERFMON, and with
 * every_process_needs_admin() CAP_SYS_ADMIN.
 */
struct every_process *every_process_open(const struct feed_sink *sink);
/*
 * For a CPU that comes later CAP_SYS_ADMIN has to be permitted: some kernels want it for faults of
 * others, as Debian's with kernel.perf_event_paranoid at 3.
 */
bool every_process_needs_admin(void);
/* Readable when many samples wait, or an end. */
int every_process_fd(const struct every_process *every);
/* Passes the records on that have come, and follows CPUs that have come since. Does not wait. */
void every_process_poll(struct every_process *every);
/* Samples that an owner may have in a second, about. */
void every_process_set_quota(struct every_process *every, uint32_t quota);
/* The ring and the paces of bpf/paced.h, for a prober. They stay open here. */
void every_process_maps(const struct every_process *every, int maps[2]);
/* Sums since it was opened. */
struct hab_growth every_process_sums(const struct every_process *every);
/* NULL: does nothing. */
void every_process_close(struct every_process *every);

#endif /* HABD_EVERY_PROCESS_H */
