/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The operations that mechanisms.c compares. Each takes 64 bytes from a word, or adds to a pointer
 * in a buffer of the thread, and returns the address: the same result by different support of the
 * operating system. Each is a function, so each has the cost of one call.
 */
#ifndef HAB_BENCH_OPERATIONS_H
#define HAB_BENCH_OPERATIONS_H

#include <stddef.h>
#include <stdint.h>

extern ptrdiff_t bench_rseq_offset;	 /* of the rseq area from the thread pointer */
extern __thread uint64_t bench_restarts; /* of the bare sections, in this thread */

/**
 * bench_operations_init - find the rseq area and fill all words
 * @fake: use an area of the program's own, always on CPU 0: for valgrind, which does not have the
 *	kernel's; with one thread only
 *
 * Return: 0, or -1 if threads of this process have no rseq area.
 */
int bench_operations_init(int fake);

/* A buffer of the thread, as a runtime's author would write it by hand. */
void *bench_tlab_bump(size_t size);

/* Restartable sequences on the word of the CPU. */
void *bench_rseq_store(size_t size);
void *bench_rseq_cmpxchg(size_t size);

/* The paper's: the CPU number by getcpu() of the vDSO, then cmpxchg, wherever the thread is now. */
void *bench_getcpu_cmpxchg(size_t size);

/* The same with the CPU number that the kernel keeps in the rseq area. */
void *bench_rseqcpu_cmpxchg(size_t size);

/* One word for all. */
void *bench_global_cmpxchg(size_t size);
void *bench_mutex(size_t size);

#endif /* HAB_BENCH_OPERATIONS_H */
