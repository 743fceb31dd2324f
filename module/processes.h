/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Processes that have heaps: the sampling interval of each.
 */
#ifndef HAB_PROCESSES_H
#define HAB_PROCESSES_H

#include <linux/types.h>

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

/* Mean distance of the process's samples in bytes. Any context. */
u64 hab_process_interval(const struct hab_process *process);

/**
 * hab_process_offer - count a sample that a process reports
 * @process: any context
 * @key: of its share
 * @interval: that the sample was drawn with
 */
void hab_process_offer(struct hab_process *process, u64 key, u64 interval);

/**
 * hab_process_refill - count a refill for the tracepoint hab_refills
 * @process: of the heap
 * @refill: in: the refill, without a pid; out: the event to fire
 *
 * Context: process.
 * Return: true if the tracepoint is to be fired: for the process's first refill, then HAB_REFILLS_MS
 * after the last time. hab_process_fired() must follow.
 */
bool hab_process_refill(struct hab_process *process, struct hab_refills_event *refill);

/**
 * hab_process_fired - the tracepoint hab_refills has been fired by this thread
 * @process: of the heap
 *
 * Refills are kept for a later event only from now on: another process may fire that one, and then a
 * listener cannot see the name of a process that it does not know.
 */
void hab_process_fired(struct hab_process *process);

/**
 * hab_process_take_refills - the refills that no event has so far
 * @process: any context
 * @sum: out: the event to fire
 *
 * Return: false if there are none.
 */
bool hab_process_take_refills(struct hab_process *process, struct hab_refills_event *sum);

/* Calls @fire for each process that has some. May sleep. */
void hab_processes_take_refills(void (*fire)(struct hab_refills_event *sum));

/**
 * hab_processes_turn - a window is over: correct all intervals
 * @throttle: of samples
 *
 * Context: process, may sleep.
 */
void hab_processes_turn(struct hab_throttle *throttle);

/**
 * hab_processes_begin - the rate has changed: all intervals begin anew
 * @throttle: of samples
 *
 * Context: process, may sleep.
 */
void hab_processes_begin(const struct hab_throttle *throttle);

#endif /* HAB_PROCESSES_H */
