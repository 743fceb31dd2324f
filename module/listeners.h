/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Listeners of the events that cost a program a kernel entry, and the reports for them.
 */
#ifndef HAB_LISTENERS_H
#define HAB_LISTENERS_H

#include <linux/types.h>

#include "uapi/hab.h"

struct hab_dev_heap;

/**
 * hab_listeners_report - HAB_IOC_REPORT
 * @heap: the heap
 * @report: in and out, checked here
 * @frames: its frames, HAB_STACK_DEPTH at most
 * @is_offered: somebody listens to that kind
 * @next_is_kept: as in struct hab_event
 *
 * Context: process.
 * Return: 0 or -EINVAL.
 */
int hab_listeners_report(struct hab_dev_heap *heap, struct hab_ioc_report *report,
			 const u64 *frames, bool *is_offered, bool *next_is_kept);

#endif /* HAB_LISTENERS_H */
