/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The text form of a rate: one reader for the module, habd and habctl. */
#ifndef HAB_CORE_RATE_H
#define HAB_CORE_RATE_H

#include "core/throttle/throttle.h"

#define HAB_RATE_PERIODS 4

/* The periods of a rate: the letter after the slash. */
static const struct {
	char letter;
	u32 ms;
} hab_rate_periods[HAB_RATE_PERIODS] = {
	{ 's', HAB_SECOND_MS },
	{ 'm', HAB_MINUTE_MS },
	{ 'h', HAB_HOUR_MS },
	{ 'd', HAB_DAY_MS },
};

/* True if @text is at its end; one newline may come first, as `echo` writes it. */
static inline bool hab_rate_is_end(const char *text)
{
	return !text[*text == '\n'];
}

/**
 * hab_rate_parse - read a rate
 * @text: "off", "NUMBER" or "NUMBER/PERIOD" with PERIOD one of s, m, h, d; a newline may follow
 * @rate: set to the number of samples, at most HAB_RATE_MAX, or to HAB_RATE_OFF
 * @period_ms: set to the length of the period; a second for "off" and for a number alone
 *
 * Return: 0, or -EINVAL if @text is no rate.
 */
static inline int hab_rate_parse(const char *text, u32 *rate, u32 *period_ms)
{
	const char *at = text;
	u32 i;

	*period_ms = HAB_SECOND_MS;
	*rate = HAB_RATE_OFF;
	if (!strncmp(text, "off", 3) && hab_rate_is_end(text + 3))
		return 0;
	for (*rate = 0; *at >= '0' && *at <= '9'; at++) {
		*rate = *rate * 10 + (*at - '0');
		if (*rate > HAB_RATE_MAX)
			return -EINVAL;
	}
	if (at == text)
		return -EINVAL;
	if (hab_rate_is_end(at))
		return 0;
	for (i = 0; *at == '/' && at[1] && i < HAB_RATE_PERIODS; i++) {
		if (at[1] != hab_rate_periods[i].letter || !hab_rate_is_end(at + 2))
			continue;
		*period_ms = hab_rate_periods[i].ms;
		return 0;
	}
	return -EINVAL;
}

#endif /* HAB_CORE_RATE_H */
