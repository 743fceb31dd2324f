/* SPDX-License-Identifier: GPL-2.0-only */
/* The limit of samples as people write it: "150/s", "9000/h", "off". */
#ifndef HABD_RATE_H
#define HABD_RATE_H

#include <stdbool.h>
#include <stdint.h>

#define RATE_LENGTH 24
#define RATE_HELP                                                           \
	"it must be a whole number from 0 to 1000000 of samples a second, " \
	"N/m, N/h or N/d for those a minute, an hour or a day, or off for no limit"

/* The text as the module takes it. False: it is none. */
bool rate_parse(const char *text, char rate[RATE_LENGTH]);
/* Of a rate as above: how many a second. False: not a whole number, or no limit. */
bool rate_per_second(const char *rate, uint64_t *number);

#endif /* HABD_RATE_H */
