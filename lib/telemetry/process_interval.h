/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The sampling interval of the process's heaps without the module. It follows the rate of the
 * process's samples, as the module's does.
 */
#ifndef HAB_LIB_PROCESS_INTERVAL_H
#define HAB_LIB_PROCESS_INTERVAL_H

#include <stdint.h>

/* Mean distance in bytes; valid for ever. */
const uint64_t *hab_process_interval(void);

/*
 * Maps the file in which habd says how many samples each process may keep: that of HAB_SAMPLING in
 * the environment, or /run/hab/sampling. Called when a heap is made: later the program may have
 * dropped the right to open files. Without the file a process may keep the default rate.
 */
void hab_process_interval_map(void);

/* The process reports a sample to a tracer of the probes; @drawn: its interval. */
void hab_process_interval_offer(uint64_t drawn);

/* In slow paths while the sampler is on: ends the windows that are over. @random: uniform bits. */
void hab_process_interval_rotate(uint64_t random);

#endif /* HAB_LIB_PROCESS_INTERVAL_H */
