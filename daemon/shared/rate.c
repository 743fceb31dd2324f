// SPDX-License-Identifier: GPL-2.0-only
/* Reads a rate as the module reads it, so that what is wrong is said where it was typed. */
#include "daemon/shared/rate.h"

#include <stdio.h>
#include <string.h>

#include "daemon/shared/util.h"

#define RATE_MAX 1000000u

bool rate_parse(const char *text, char rate[RATE_LENGTH])
{
	const char *slash = strchr(text, '/'), *period = slash ? slash + 1 : "s";
	char digits[RATE_LENGTH];
	uint64_t number;
	size_t length = slash ? (size_t)(slash - text) : strlen(text);

	if (!strcmp(text, "off")) {
		strcpy(rate, "off");
		return true;
	}
	if (length >= sizeof(digits) || strlen(period) != 1 || !strchr("smhd", *period))
		return false;
	memcpy(digits, text, length);
	digits[length] = 0;
	if (!parse_number(digits, 0, RATE_MAX, &number))
		return false;
	snprintf(rate, RATE_LENGTH, "%u/%s", (unsigned int)number, period);
	return true;
}

bool rate_per_second(const char *rate, uint64_t *number)
{
	unsigned int of_period, seconds = 1;
	char period;

	if (sscanf(rate, "%u/%c", &of_period, &period) != 2)
		return false;
	if (period != 's')
		seconds = period == 'm' ? 60 : period == 'h' ? 3600 : 86400;
	*number = of_period / seconds;
	return of_period % seconds == 0;
}
