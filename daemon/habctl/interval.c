// SPDX-License-Identifier: GPL-2.0-only
/*
 * The confidence interval of an estimate.
 *
 * The hard case is a stack with few samples, as most stacks are: a normal interval would begin
 * below 0 and end too low. Quantiles of the gamma distribution come from the approximation of
 * Wilson and Hilferty, whose error is below 1 % from five samples on.
 */
#include "daemon/habctl/interval.h"

#include <math.h>

#define Z_95	1.959963984540054
#define NONE_95 3.688879454113936 /* -log(0.025) */

static double gamma_quantile(double shape, double z)
{
	double root = 1 - 1 / (9 * shape) + z / (3 * sqrt(shape));

	return root > 0 ? shape * root * root * root : 0;
}

/* Quantile of a sum with that mean and variance, as if of a gamma distribution. */
static double quantile(double mean, double variance, double z)
{
	return variance / mean * gamma_quantile(mean * mean / variance, z);
}

struct interval interval_95(double estimate, double variance, double weight)
{
	struct interval interval = { estimate, estimate };
	double own, next;

	if (!(estimate > 0) || !(variance > 0))
		return interval;
	own = variance / estimate;
	next = weight > own ? sqrt(own * weight) : own;
	interval.low = quantile(estimate, variance, -Z_95);
	interval.high = quantile(estimate + next, variance + next * next, Z_95);
	return interval;
}

struct interval interval_95_none(double weight)
{
	struct interval interval = { 0, weight > 0 ? weight * NONE_95 : 0 };

	return interval;
}
