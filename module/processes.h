/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Processes that have heaps: the sampling interval of each.
 */
#ifndef HAB_PROCESSES_H
#define HAB_PROCESSES_H

#include <linux/types.h>

struct list_head;
struct hab_process;
struct hab_refills_event;
struct hab_throttle;
struct hab_owner;

/**
 * hab_processes_add_heap - count a heap for the current process
 * @owner: whose heap it is
 *
 * Context: process, may sleep.
 * Return: the process, valid until hab_processes_remove_heap(), or ERR_PTR(-ENOMEM).
 */
struct hab_process *hab_processes_add_heap(struct hab_owner *owner);

/* The heap is gone. May sleep. */
void hab_processes_remove_heap(struct hab_process *process);

/* List of the process's heaps, for module/heap.c. */
struct list_head *hab_process_heaps(struct hab_process *process);

/* Mean distance of the process's samples in bytes. Any context. */
u64 hab_process_interval(const struct hab_process *process);

/**
 * hab_process_offer - count a sample that a process reports
 * @process: any context
 * @key: of its share
 * @interval: that the sample was drawn with
 */
void hab_process_offer(struct hab_process *process, u64 key, u64 interval);

/* Fires the tracepoint hab_refills. */
/* How long a process's refills wait for their event. */
#define HAB_REFILLS_MS 100

typedef void (*hab_fire_refills)(struct hab_refills_event *event);

/**
 * hab_process_refill - report a refill, at once or with others
 * @process: of the heap
 * @bytes: of the refill
 * @restarts: that the program reports with it
 * @waste_bytes: the same
 * @fire: called for the process's first refill and for those of a process that the heap was passed
 *	to, else with the sum of HAB_REFILLS_MS
 *
 * Context: process.
 */
void hab_process_refill(struct hab_process *process, u64 bytes, u64 restarts, u64 waste_bytes,
			hab_fire_refills fire);

/* Reports the refills that wait. Any context, if @fire can be called there. */
void hab_process_take_refills(struct hab_process *process, hab_fire_refills fire);

/* The same for each process. May sleep. */
void hab_processes_take_refills(hab_fire_refills fire);

/* Shows the heaps of a list the interval of their process. */
typedef void (*hab_show_heaps)(struct list_head *heaps);

/**
 * hab_processes_turn - a window is over: correct the intervals of processes that offer samples
 * @throttle: of samples
 * @quota: what the next window may keep of all processes, with HAB_SHARE_SHIFT bits of fraction.
 *	Without what earlier windows left unused: after a pause that is several times as much
 * @show: called for the heaps of each such process
 *
 * Context: process, may sleep.
 */
void hab_processes_turn(struct hab_throttle *throttle, u64 quota, hab_show_heaps show);

/**
 * hab_processes_begin - the rate has changed: all intervals begin anew
 * @quota: as before
 *
 * Context: process, may sleep.
 */
void hab_processes_begin(u64 quota);

#endif /* HAB_PROCESSES_H */
