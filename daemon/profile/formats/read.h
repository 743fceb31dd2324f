/* SPDX-License-Identifier: GPL-2.0-only */
/* Reads profiles that habd wrote. */
#ifndef HABD_PROFILE_READ_H
#define HABD_PROFILE_READ_H

#include "daemon/profile/filter.h"
#include "daemon/profile/profile.h"

/*
 * Reads what the filter selects of a gzipped pprof profile; profile_free() frees it. *has_errors:
 * true if the file has the standard errors of its estimates. NULL: @why is a sentence.
 */
struct profile *profile_read(const void *data, size_t size, const struct filter *filter,
			     bool *has_errors, char *why, size_t why_size);
/* Reads a file in the same way. */
struct profile *profile_read_file(const char *path, const struct filter *filter, bool *has_errors,
				  char *why, size_t why_size);

#endif /* HABD_PROFILE_READ_H */
