/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Telemetry of the module: exact totals, tracepoints, the throttlers.
 */
#ifndef HAB_TELEMETRY_H
#define HAB_TELEMETRY_H

#include <linux/types.h>

#include "module/events.h"

struct hab_process;

int hab_telemetry_init(void);
void hab_telemetry_exit(void);

/**
 * hab_telemetry_refill - count a refill, and report it if there are listeners
 * @process: of the heap
 * @heap_id: the heap
 * @name: its name, HAB_NAME_LEN bytes
 * @counted_bytes: the part of @granted_bytes that counts, see hab_owners_spend()
 * @refill: the refill; its @sample_id is set if a listener kept the event
 * @dropped_bytes: free extents that became waste by it
 *
 * Context: process, preemption off (on kernels from 7.0 on, a tracepoint that is called preemptible
 * loses BPF hits to the recursion guard).
 */
void hab_telemetry_refill(struct hab_process *process, u64 heap_id, const char *name,
			  u64 counted_bytes, struct hab_ioc_refill *refill, u64 dropped_bytes);

/**
 * hab_telemetry_sample - the current process reports a sample of a heap
 * @process: of the heap
 * @interval: that the sample was drawn with
 *
 * Context: process.
 */
void hab_telemetry_sample(struct hab_process *process, u64 interval);

void hab_telemetry_heap(u64 heap_id, const char *name);
/* A heap of the process ends: reports the refills that hab_refills has not reported. */
void hab_telemetry_end_heap(struct hab_process *process);
void hab_telemetry_stack(struct hab_stack_event *event);

/*
 * Offers one event to its throttler. 0: it is dropped, as without a listener; else the probability
 * with which it is kept.
 */
u64 hab_telemetry_offer(struct hab_event *event);

/*
 * Exact totals since the module was loaded, and the bytes saturate. If the current process may
 * follow the tracepoints, hab_refills is fired first, so that it can compare them. May sleep.
 */
void hab_telemetry_totals(u64 *refills, u64 *bytes);

/* The rate of each kind of event. -EINVAL as hab_throttle_set_rate(). */
void hab_telemetry_rate(u32 *rate, u32 *period_ms);
int hab_telemetry_set_rate(u32 rate, u32 period_ms);

/* What a group of shares is: the processes of an owner or of a cgroup. */
enum { HAB_SHARE_BY_PROCESS, HAB_SHARE_BY_CGROUP };
u32 hab_telemetry_share_by(void);
int hab_telemetry_set_share_by(u32 by);

/* Sums over all kinds of events. */
u64 hab_telemetry_sampled(void);
u64 hab_telemetry_throttled(void);

#endif /* HAB_TELEMETRY_H */
