/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Who follows the events that cost a kernel entry, and how heaps get to know.
 */
#ifndef HAB_LISTENERS_H
#define HAB_LISTENERS_H

#include <linux/types.h>

#include "uapi/hab.h"

struct hab_dev_heap;

/* For the tracepoints: the first listener has come, the last one has gone. */
int hab_listeners_add_tlab(void);
void hab_listeners_remove_tlab(void);
int hab_listeners_add_outside(void);
void hab_listeners_remove_outside(void);
int hab_listeners_add_sample(void);
void hab_listeners_remove_sample(void);

/* Shows a heap who listens now; by hab_dev_heaps_join() and within hab_dev_heaps_each(). */
void hab_listeners_show(struct hab_dev_heap *heap);

/**
 * hab_listeners_report - HAB_IOC_REPORT
 * @heap: the heap
 * @report: in and out, checked here
 *
 * Context: process.
 * Return: 0 or -EINVAL.
 */
int hab_listeners_report(struct hab_dev_heap *heap, struct hab_ioc_report *report);

/* Mean distance of samples in bytes, 0: every allocation. At most LLONG_MAX: -EINVAL. */
u64 hab_listeners_interval(void);
int hab_listeners_set_interval(u64 mean_bytes);

#endif /* HAB_LISTENERS_H */
