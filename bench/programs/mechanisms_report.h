/* SPDX-License-Identifier: GPL-2.0-only */
/* The report of the mechanisms' costs. */
#ifndef HAB_BENCH_MECHANISMS_REPORT_H
#define HAB_BENCH_MECHANISMS_REPORT_H

#include <stdint.h>
#include <stdio.h>

#define BENCH_ROUNDS 11 /* at most */

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
 * @csv: for the CSV; the table and the ratios that have a goal go to stdout
 */
void bench_report(struct bench_table *table, int rounds, FILE *csv);

#endif /* HAB_BENCH_MECHANISMS_REPORT_H */
