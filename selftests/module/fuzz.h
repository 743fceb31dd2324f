/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The fuzzer of /dev/hab: what its parts share.
 *
 *	fuzz_test.c      the test: starts all, waits for enough operations, checks the results
 *	fuzz_attacker.c  a hostile process: its threads and their choices
 *	fuzz_ioctl.c     the grammar of the commands
 *	fuzz_memory.c    the grammar of mappings
 *	fuzz_process.c   descriptors, fork, clone, passing descriptors on
 *	fuzz_outside.c   a tracer of hostile processes, and an administrator
 *	fuzz_regular.c    a well-behaved process with a heap
 *	fuzz_table.c     operations x outcomes
 *
 * The fuzzer never breaks itself, though its threads unmap, move and protect memory at random: all
 * random mappings are in cells of one reserved zone, all descriptors in slots of fixed numbers, and
 * every use of either expects a signal.
 */
#ifndef HAB_SELFTESTS_FUZZ_H
#define HAB_SELFTESTS_FUZZ_H

#include <errno.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define FUZZ_ATTACKERS	4
#define FUZZ_THREADS	3
#define FUZZ_SLOTS	6
#define FUZZ_FIRST_FD	200
#define FUZZ_CELLS	16
#define FUZZ_CELL_BYTES (1ul << 20)
#define FUZZ_PAGE	4096ul
#define FUZZ_NO_HEAP	6 /* status of an attacker that got no heap at the start */

/* Outcomes are errnos, and one more: the operation ended by a signal. */
#define FUZZ_SIGNAL   134
#define FUZZ_OUTCOMES 135

/* Name and weight of each operation. */
#define FUZZ_OPERATIONS(X)    \
	X(fresh_heap, 12)     \
	X(open, 12)           \
	X(close, 5)           \
	X(dup, 8)             \
	X(file_calls, 10)     \
	X(ioctl_version, 200) \
	X(ioctl_create, 120)  \
	X(ioctl_refill, 1600) \
	X(ioctl_reset, 60)    \
	X(ioctl_stats, 200)   \
	X(ioctl_stack, 150)   \
	X(ioctl_return, 400)  \
	X(ioctl_report, 300)  \
	X(ioctl_unknown, 150) \
	X(mmap_info, 30)      \
	X(mmap_words, 40)     \
	X(mmap_arena, 30)     \
	X(mmap_elsewhere, 8)  \
	X(munmap, 10)         \
	X(mremap, 15)         \
	X(mprotect, 30)       \
	X(madvise, 40)        \
	X(memory_calls, 20)   \
	X(touch, 200)         \
	X(scribble, 300)      \
	X(flip, 12)           \
	X(contend, 8)         \
	X(library_take, 300)  \
	X(send_fd, 8)         \
	X(receive_fd, 8)      \
	X(fork, 1)            \
	X(clone_vm, 1)

/* Those of fuzz_outside.c and fuzz_test.c, which are not drawn. */
#define FUZZ_OUTSIDE_OPERATIONS(X) \
	X(trace_poke)              \
	X(write_other)             \
	X(sysfs)                   \
	X(kill)

#define FUZZ_NUMBER(name, ...) FUZZ_##name,
enum fuzz_operation {
	FUZZ_OPERATIONS(FUZZ_NUMBER) FUZZ_OUTSIDE_OPERATIONS(FUZZ_NUMBER) FUZZ_NR_OPERATIONS
};

/**
 * struct fuzz_shared - shared by all processes of the fuzzer
 * @seed: of all random choices
 * @done: operations so far
 * @outcomes: number of each outcome of each operation
 * @bus: a pair of sockets for passing descriptors
 * @attackers: current pids, 0: none
 * @zones: addresses of their cells
 * @crashes: attackers that ended in an unexpected way
 * @stop: all should end
 * @regular_rounds: arenas that the regular process filled and found intact
 * @regular_errors: errors that it found; @regular_error is the first
 */
struct fuzz_shared {
	uint64_t seed;
	uint64_t done;
	uint64_t outcomes[FUZZ_NR_OPERATIONS][FUZZ_OUTCOMES];
	int bus[2];
	pid_t attackers[FUZZ_ATTACKERS];
	char *zones[FUZZ_ATTACKERS];
	uint64_t crashes;
	int stop;
	uint64_t regular_rounds;
	uint64_t regular_errors;
	char regular_error[128];
};

extern struct fuzz_shared *fuzz;

/**
 * struct fuzz_heap - a process's last knowledge of the heap in a slot
 *
 * Threads write it without synchronisation, so it is often out of date, which is intended.
 */
struct fuzz_heap {
	uint64_t arena_bytes;
	uint64_t info_bytes;
	uint64_t words_bytes;
	uint64_t chunk_offset;
	uint64_t chunk_bytes;
	uint64_t sample_id;
};

enum fuzz_area { FUZZ_NOTHING, FUZZ_INFO, FUZZ_WORDS, FUZZ_ARENA };

/**
 * struct fuzz_thread - a thread that draws operations
 * @random: its generator
 * @buffer: two pages for arguments, a page without access behind them
 * @alone: in a child, which must start nothing
 * @heaps: of its process
 * @zone: address of its process's cells
 * @cells: of its process: what was mapped there last, enum fuzz_area
 * @library: a heap of libhab, of its process
 * @contended: descriptor of another heap, which stays open and mapped
 * @word: the only word of that heap
 * @pipe: of its process
 */
struct fuzz_thread {
	uint64_t random;
	char *buffer;
	bool alone;
	struct fuzz_heap *heaps;
	char *zone;
	uint8_t *cells;
	struct hab_heap *library;
	int contended;
	uint64_t *word;
	int pipe[2];
};

extern __thread sigjmp_buf fuzz_landing;
extern __thread volatile int fuzz_flying;

static inline uint32_t fuzz_roll(struct fuzz_thread *thread)
{
	thread->random ^= thread->random << 13;
	thread->random ^= thread->random >> 7;
	thread->random ^= thread->random << 17;
	return thread->random >> 32;
}

static inline bool fuzz_once_in(struct fuzz_thread *thread, uint32_t n)
{
	return fuzz_roll(thread) % n == 0;
}

static inline uint64_t fuzz_wide(struct fuzz_thread *thread)
{
	return (uint64_t)fuzz_roll(thread) << 32 | fuzz_roll(thread);
}

static inline int fuzz_slot(struct fuzz_thread *thread)
{
	return fuzz_roll(thread) % FUZZ_SLOTS;
}

static inline char *fuzz_cell(struct fuzz_thread *thread)
{
	return thread->zone + fuzz_roll(thread) % FUZZ_CELLS * FUZZ_CELL_BYTES;
}

/* A cell with that area, or any cell for FUZZ_NOTHING. NULL: there is none. */
char *fuzz_cell_with(struct fuzz_thread *thread, enum fuzz_area area);

/* The errno of a call with that @result. */
static inline int fuzz_errno(long result)
{
	return result < 0 ? errno : 0;
}

/* A number at or near a limit. */
uint64_t fuzz_odd_number(struct fuzz_thread *thread);

/* Maps into a cell, or for a moment at the kernel's choice of address: an errno, or 0. */
int fuzz_map(struct fuzz_thread *thread, int slot, uint64_t bytes, int prot, int flags,
	     uint64_t offset);

/* fuzz_table.c */
void fuzz_record(enum fuzz_operation operation, int outcome);
void fuzz_print(void);
/* Prints each promised outcome that never occurred; returns their number. */
int fuzz_missing(void);

/* The operations: each returns its errno, or 0. */
#define FUZZ_DECLARE(name, ...) int fuzz_do_##name(struct fuzz_thread *thread);
FUZZ_OPERATIONS(FUZZ_DECLARE)

/* fuzz_attacker.c; none but the first two return. */
uint64_t fuzz_seed_of(uint64_t a, uint64_t b);
void fuzz_some(struct fuzz_thread *thread, int nr);
void fuzz_attack(int index, uint64_t generation) __attribute__((noreturn));
void fuzz_trace(void) __attribute__((noreturn));
void fuzz_administer(void) __attribute__((noreturn));
void fuzz_run_regular(void) __attribute__((noreturn));

#endif /* HAB_SELFTESTS_FUZZ_H */
