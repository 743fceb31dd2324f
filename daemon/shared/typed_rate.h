/* SPDX-License-Identifier: GPL-2.0-only */
/* The limit of samples as it is typed: "150", "9000/h", "off". */
#ifndef HABD_TYPED_RATE_H
#define HABD_TYPED_RATE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/throttle/rate.h"

#define RATE_HELP                                                           \
	"it must be a whole number from 0 to 1000000 of samples a second, " \
	"N/m, N/h or N/d for those a minute, an hour or a day, or off for no limit"

static inline bool rate_is_valid(const char *text)
{
	u32 rate, period_ms;

	return !hab_rate_parse(text, &rate, &period_ms);
}

/* Samples a second. False if that is no whole number, or if there is no limit. */
static inline bool rate_per_second(const char *text, uint64_t *number)
{
	u32 rate, period_ms;

	if (hab_rate_parse(text, &rate, &period_ms) || rate == HAB_RATE_OFF)
		return false;
	*number = rate / (period_ms / HAB_SECOND_MS);
	return rate % (period_ms / HAB_SECOND_MS) == 0;
}

#endif /* HABD_TYPED_RATE_H */
