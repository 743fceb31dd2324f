/* SPDX-License-Identifier: GPL-2.0-only */
/* Command lines, read by argp. */
#ifndef HABD_ARGUMENTS_H
#define HABD_ARGUMENTS_H

#include <argp.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * Reads a command line. Ends the program: after --help and --version, and with EXIT_USAGE and a
 * sentence if an argument is wrong. flags: of argp_parse().
 */
void arguments_parse(const struct argp *argp, unsigned int flags, int argc, char **argv,
		     void *input);
/* What a parser of argp returns. good: false after a sentence. */
static inline error_t arguments_result(bool good)
{
	return good ? 0 : EINVAL;
}

/* Reads the value of an option: a whole number from low to high. False after a sentence. */
bool arguments_number(const char *option, const char *value, uint64_t low, uint64_t high,
		      uint64_t *number);
/* Likewise a duration, in nanoseconds; a number alone is seconds. */
bool arguments_duration(const char *option, const char *value, uint64_t low_ns, uint64_t high_ns,
			uint64_t *ns);

#endif /* HABD_ARGUMENTS_H */
