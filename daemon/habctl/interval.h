/* SPDX-License-Identifier: GPL-2.0-only */
/* How sure an estimate is. */
#ifndef HABD_INTERVAL_H
#define HABD_INTERVAL_H

struct interval {
	double low;
	double high;
};

/**
 * interval_95 - a 95 % confidence interval of the true bytes behind an estimate
 * @estimate: sum of bytes / p over the samples, p being the probability each was kept with
 * @variance: sum of bytes^2 (1 - p) / p^2 over the same samples
 * @weight: what a sample stands for in the whole profile: variance / estimate of all samples
 *
 * The samples are as good as n = estimate^2 / variance samples of the same weight, and the
 * number of events that are kept now and then is Poisson distributed. So the interval is that of
 * a Poisson mean, after Garwood: quantiles of the gamma distributions of shape n and n + 1. It is
 * not symmetric, its lower end is above 0, and for few samples it holds where estimate +- 1.96
 * standard errors does not: there the variance is too small whenever the estimate is.
 *
 * What was not kept may have stood for much more than what was: of a stack that is seen
 * mostly in quiet times the few samples in bursts are missed, and the variance with them. So the
 * upper end has room for one more sample (Fay and Feuer, 1997), which stands for the
 * geometric mean of what the stack's own and all samples stand for, or for what the stack's
 * own do if that is more. That mean is a choice, made by simulation (bias_test): with the
 * stack's own alone 87 of 100 intervals held there, with that of all 99.
 *
 * Limits: below about five samples, and where a stack's few samples stand for very different
 * numbers of bytes, it may hold less often than 95 %. It says nothing of stacks of which no
 * sample was kept, and it is of one stack, or one sum: of twenty, one is expected to be outside
 * its own. Where samples were spread more evenly than by chance, as the module spreads them, it is
 * wider than it need be.
 *
 * Return: the interval; the estimate itself, twice, if everything was kept (variance 0).
 */
struct interval interval_95(double estimate, double variance, double weight);

/**
 * interval_95_none - the same for a stack of which no sample was kept
 * @weight: what a sample stood for where there were some: variance / estimate of all of them
 *
 * Return: from 0 to what would have left no sample once in forty times.
 */
struct interval interval_95_none(double weight);

#endif /* HABD_INTERVAL_H */
