/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * A sampling interval that the process sets itself, by the law of wire/interval.h.
 */
#ifndef HAB_LIB_OWN_INTERVAL_H
#define HAB_LIB_OWN_INTERVAL_H

#include "wire/interval.h"

/**
 * struct hab_own_interval - see above
 * @interval: its mean is the distance in bytes
 * @window: number of the current one; 0: none so far
 *
 * No timer ends the windows: the first thread that calls hab_own_interval_rotate() after the end of
 * one does it. A thread that offers a sample meanwhile counts in either window.
 */
struct hab_own_interval {
	struct hab_interval interval;
	u64 window;
};

#define HAB_OWN_INTERVAL_INIT                                                                  \
	{                                                                                      \
		.interval = { .mean = HAB_SAMPLING_INTERVAL_DEFAULT,                           \
			      .limit = HAB_OFFERS_MOST * HAB_SHARE_DEFAULT >> HAB_SHARE_SHIFT, \
			      .step = (HAB_SHARE_DEFAULT >> HAB_SHARE_SHIFT) / 8 },            \
	}

/* The process reports a sample; @drawn: its interval. */
static inline void hab_own_interval_offer(struct hab_own_interval *own, u64 drawn)
{
	hab_interval_offer(&own->interval, NULL, drawn);
}

/**
 * hab_own_interval_rotate - end the windows that are over
 * @own: any thread
 * @share: samples of a window, as for hab_interval_turn()
 * @least: lower bound of the mean
 * @random: uniform bits
 */
void hab_own_interval_rotate(struct hab_own_interval *own, u64 share, u64 least, u64 random);

#endif /* HAB_LIB_OWN_INTERVAL_H */
