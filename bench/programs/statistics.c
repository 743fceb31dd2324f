// SPDX-License-Identifier: GPL-2.0-only
#include <stdlib.h>

#include "lib/clock.h"
#include "statistics.h"

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

struct bench_summary bench_summarize(double *values, int n)
{
	struct bench_summary summary;

	qsort(values, n, sizeof(*values), compare);
	summary.median = n & 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
	summary.min = values[0];
	summary.max = values[n - 1];
	return summary;
}

double bench_now(void)
{
	return hab_clock_ns() * 1e-9;
}
