/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A safepoint: all threads meet, one of them works, all continue.
 */
#ifndef HAB_BENCH_SAFEPOINT_H
#define HAB_BENCH_SAFEPOINT_H

/**
 * safepoint_init - before the threads start
 * @threads: number of threads that meet
 * @work: called by the last thread that arrives, while all others wait
 */
void safepoint_init(int threads, void (*work)(void));

/* Arrives and waits until @work was done. */
void safepoint_meet(void);

/* A thread that ends arrives no more. */
void safepoint_leave(void);

#endif /* HAB_BENCH_SAFEPOINT_H */
