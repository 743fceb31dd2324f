/* SPDX-License-Identifier: GPL-2.0-only */
/* Profiles from files that habd wrote. */
#ifndef HABD_PROFILE_READ_H
#define HABD_PROFILE_READ_H

#include "daemon/shared/filter.h"
#include "daemon/profile/profile.h"

/*
 * What the filter wants of a gzipped pprof profile, as profile_collect() and profile_name() give
 * it; profile_free() frees. NULL: why is a sentence. *has_errors: whether the profile tells how
 * sure its estimates are.
 */
struct profile *profile_read(const void *data, size_t size, const struct filter *filter,
			     bool *has_errors, char *why, size_t why_size);
/* The same of a file. */
struct profile *profile_read_file(const char *path, const struct filter *filter, bool *has_errors,
				  char *why, size_t why_size);

#endif /* HABD_PROFILE_READ_H */
