// SPDX-License-Identifier: GPL-2.0-only
/*
 * Reads times as people write them.
 *
 * A time in UTC, with a Z, is never ambiguous. A local time may be: 02:15 is twice in the night in
 * which summer time ends, and the C library takes one of the two.
 */
#include "daemon/habd/history/time.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "daemon/shared/util.h"

/* The whole text has this format of strptime(); fields that it lacks stay. */
static bool has_format(const char *text, const char *format, struct tm *parts)
{
	const char *end = strptime(text, format, parts);

	return end && !*end;
}

static bool parse_clock(const char *text, int64_t now, int64_t *result)
{
	struct tm parts, yesterday;
	time_t today = (time_t)now;

	if (!localtime_r(&today, &parts))
		return false;
	parts.tm_sec = 0;
	if (!has_format(text, "%H:%M:%S", &parts) && !has_format(text, "%H:%M", &parts))
		return false;
	parts.tm_isdst = -1;
	yesterday = parts;
	*result = mktime(&parts);
	if (*result > now) {
		/* Days of 23 and 25 hours are days, too. */
		yesterday.tm_mday--;
		*result = mktime(&yesterday);
	}
	return true;
}

static bool parse_date(const char *text, int64_t *result)
{
	static const char *const formats[] = { "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M:%S",
					       "%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M", "%Y-%m-%d" };
	size_t length = strlen(text);
	bool utc = length && text[length - 1] == 'Z', good = false;
	char *copy = xstrndup(text, utc ? length - 1 : length);
	struct tm parts;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(formats) && !good; i++) {
		parts = (struct tm){ .tm_isdst = -1 };
		good = has_format(copy, formats[i], &parts);
	}
	free(copy);
	if (good)
		*result = utc ? timegm(&parts) : mktime(&parts);
	return good;
}

bool history_time_parse(const char *text, int64_t now, int64_t *result)
{
	uint64_t ago_ns;

	*result = now;
	if (!strcmp(text, "now"))
		return true;
	if (parse_duration(text, true, &ago_ns)) {
		*result = now - (int64_t)(ago_ns / 1000000000);
		return true;
	}
	return parse_clock(text, now, result) || parse_date(text, result);
}

void history_time_print(int64_t seconds, char *text, size_t size)
{
	time_t time = (time_t)seconds;
	struct tm parts;

	if (!localtime_r(&time, &parts) || !strftime(text, size, "%Y-%m-%d %H:%M:%S", &parts))
		snprintf(text, size, "?");
}
