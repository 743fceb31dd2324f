/* SPDX-License-Identifier: GPL-2.0-only */
/* Medians and a clock. */
#ifndef HAB_BENCH_STATISTICS_H
#define HAB_BENCH_STATISTICS_H

#include <stdbool.h>

/**
 * struct bench_summary - some measurements of one thing
 * @median: of them
 * @min: smallest
 * @max: largest
 */
struct bench_summary {
	double median;
	double min;
	double max;
};

/* Sorts @values; @n is at least 1. */
struct bench_summary bench_summarize(double *values, int n);

/* Seconds of a clock that never goes back. */
double bench_now(void);

#endif /* HAB_BENCH_STATISTICS_H */
