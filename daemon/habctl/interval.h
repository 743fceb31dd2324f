/* SPDX-License-Identifier: GPL-2.0-only */
/* Confidence intervals of estimates. */
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
 * @weight: bytes that a sample stands for otherwise: variance / estimate of all samples of the
 *	stack's user, since other users' samples may be of any size
 *
 * The samples are worth n = estimate^2 / variance samples of equal weight, and the number of
 * events that are kept now and then is Poisson distributed. So the interval is that of a Poisson
 * mean, after Garwood: quantiles of the gamma distributions of shape n and n + 1. It is not
 * symmetric, its lower end is above 0, and it holds for few samples, where estimate +- 1.96
 * standard errors fails: the variance is too small whenever the estimate is.
 *
 * The samples that were not kept may stand for more bytes than those that were: the few samples of
 * a stack that allocates mostly in quiet times miss its bursts, and the variance misses them, too.
 * So the upper end has room for one more sample (Fay and Feuer, 1997). It stands for the geometric
 * mean of what the stack's own samples and all samples stand for, or for what the stack's own do if
 * that is more. That mean is a choice, made by simulation (bias_test): with the stack's own alone
 * 87 of 100 intervals held there, with that of all samples 99.
 *
 * Limits: below about five samples, and where a stack's few samples stand for very different
 * numbers of bytes, the interval may hold less often than 95 %. It covers no stack without a kept
 * sample. It is of one stack, or of one sum: of twenty intervals one is expected to miss. Where
 * samples are spread more evenly than by chance, as the module spreads them, it is too wide.
 *
 * Return: the interval; the estimate itself, twice, if everything was kept (variance 0).
 */
struct interval interval_95(double estimate, double variance, double weight);

/**
 * interval_95_none - a 95 % confidence interval for a stack without a kept sample
 * @weight: as for interval_95()
 *
 * Return: from 0 to the bytes that leave no sample once in forty times.
 */
struct interval interval_95_none(double weight);

#endif /* HABD_INTERVAL_H */
