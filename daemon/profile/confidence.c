// SPDX-License-Identifier: GPL-2.0-only
/*
 * The confidence interval of an estimate.
 *
 * An interval never begins below 0, and covers enough for a stack with few samples, as most stacks
 * are; a normal interval would end too low. Quantiles of the gamma distribution come from the
 * approximation of Wilson and Hilferty, whose error is below 1 % from five samples on.
 */
#include "daemon/profile/confidence.h"

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

/* What a sample stands for, root mean square; 0 if all was kept. */
static double weight_of_all(struct estimate all)
{
	double mean = all.value / fmax(all.samples, 1);

	return all.variance > 0 ? sqrt(all.variance / fmax(all.samples, 1) + mean * mean) : 0;
}

/* What a sample that was not kept may stand for. */
static double weight_of_next(struct estimate own, double all)
{
	double weight = fmax(own.variance / own.value, own.value / fmax(own.samples, 1));

	return all > weight ? sqrt(weight * all) : weight;
}

struct interval interval_95(struct estimate own, struct estimate all)
{
	struct interval interval = { own.value, own.value };
	double next;

	if (!(own.value > 0)) {
		interval.high = weight_of_all(all) * NONE_95;
		return interval;
	}
	if (!(own.variance > 0))
		return interval;
	next = weight_of_next(own, weight_of_all(all));
	interval.low = quantile(own.value, own.variance, -Z_95);
	interval.high = quantile(own.value + next, own.variance + next * next, Z_95);
	return interval;
}

static struct estimate estimate_of_in_use(const struct in_use *in_use)
{
	return (struct estimate){ (double)(in_use->bytes - min(in_use->exact, in_use->bytes)),
				  in_use->variance, (double)in_use->samples };
}

struct interval interval_of_in_use(const struct in_use *own, const struct stack_counts *allocated,
				   const struct in_use *all)
{
	struct interval interval =
		interval_95(estimate_of_in_use(own),
			    own->samples ? estimate_of_in_use(all) : estimate_of_bytes(allocated));

	interval.low += (double)min(own->exact, own->bytes);
	interval.high += (double)min(own->exact, own->bytes);
	return interval;
}
