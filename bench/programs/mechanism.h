/* SPDX-License-Identifier: GPL-2.0-only */
/* The mechanisms of mechanisms_loops.c, and the report of mechanisms_report.c. */
#ifndef HAB_BENCH_MECHANISM_H
#define HAB_BENCH_MECHANISM_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define BENCH_ROUNDS	 11 /* at most */
#define BENCH_MECHANISMS 10

struct hab_heap;

/**
 * struct bench_mechanism - a way to take memory
 * @name: in the results
 * @loop: takes memory @n times
 * @heap: the heap in use; NULL: none
 */
struct bench_mechanism {
	const char *name;
	void (*loop)(uint64_t n);
	struct hab_heap **heap;
};

extern const struct bench_mechanism bench_mechanisms[BENCH_MECHANISMS];

/* Creates the heaps of hab's mechanisms with arenas of @arena bytes; ends the program on errors. */
void bench_create_heaps(size_t arena);

/**
 * struct bench_cell - one mechanism with one number of threads
 * @ns: CPU time of an operation, by round
 * @restarts: sum over the rounds
 */
struct bench_cell {
	double ns[BENCH_ROUNDS];
	uint64_t restarts;
};

/**
 * struct bench_table - all results
 * @names: of the mechanisms
 * @instructions: of an operation; 0 if not counted
 * @threads: the numbers of threads
 * @nr_names: number of mechanisms
 * @nr_threads: length of @threads
 * @cells: [mechanism][number of threads]
 */
struct bench_table {
	const char **names;
	const double *instructions;
	const int *threads;
	int nr_names;
	int nr_threads;
	struct bench_cell *cells;
};

/**
 * bench_report - print the results
 * @table: the measurements; the rounds are sorted
 * @rounds: number of rounds
 * @csv: for the CSV; the table and the ratios that have a bar go to stdout
 */
void bench_report(struct bench_table *table, int rounds, FILE *csv);

#endif /* HAB_BENCH_MECHANISM_H */
