/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Stop the world: all threads meet, one of them works, all go on.
 */
#ifndef HAB_BENCH_SAFEPOINT_H
#define HAB_BENCH_SAFEPOINT_H

/**
 * safepoint_init - before the threads start
 * @threads: how many will meet
 * @work: called by the last thread that comes, when all others wait
 */
void safepoint_init(int threads, void (*work)(void));

/* Comes to the meeting and waits until @work was done. */
void safepoint_meet(void);

/* A thread that ends does not come any more. */
void safepoint_leave(void);

#endif /* HAB_BENCH_SAFEPOINT_H */
