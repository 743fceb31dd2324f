/* SPDX-License-Identifier: GPL-2.0-only */
/* Times as people write them, for spans of the history. */
#ifndef HABD_HISTORY_TIME_H
#define HABD_HISTORY_TIME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HISTORY_TIME_HELP                                                                       \
	"it must be a time ago, as 90s, 15m, 2h or 7d; a time of the last 24 hours, as 02:15; " \
	"or a date, as 2026-11-23, with a time, as 2026-11-23T02:15 (UTC with a Z after it); or now"

/* Times in seconds since 1970, and local unless they say otherwise. */
bool history_time_parse(const char *text, int64_t now, int64_t *time);
/* "2026-11-23 02:15:00", local */
void history_time_print(int64_t time, char *text, size_t size);

#endif /* HABD_HISTORY_TIME_H */
