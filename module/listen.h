/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Who follows the events that cost a kernel entry, and how heaps get to know.
 */
#ifndef HAB_LISTEN_H
#define HAB_LISTEN_H

#include <linux/types.h>

#include "../uapi/hab.h"

struct hab_heap;

/* For the tracepoints: the first listener has come, the last one has gone. */
int hab_listen_tlab(void);
void hab_unlisten_tlab(void);
int hab_listen_outside(void);
void hab_unlisten_outside(void);
int hab_listen_sample(void);
void hab_unlisten_sample(void);

/* Shows a heap who listens now; by hab_heaps_join() and within hab_heaps_each(). */
void hab_listen_show(struct hab_heap *heap);

/**
 * hab_listen_report - HAB_IOC_REPORT
 * @heap: the heap
 * @report: in and out, checked here
 *
 * Context: process.
 * Return: 0 or -EINVAL.
 */
int hab_listen_report(struct hab_heap *heap, struct hab_report *report);

/* Mean distance of samples in bytes, 0: every allocation. At most LLONG_MAX: -EINVAL. */
u64 hab_listen_interval(void);
int hab_listen_set_interval(u64 mean_bytes);

#endif /* HAB_LISTEN_H */
