/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Samples summed up by site. A site is the function that allocates: the program's own function
 * next to the leaf.
 */
#ifndef HABD_SITES_H
#define HABD_SITES_H

#include "daemon/profile/profile.h"
#include "daemon/shared/hash.h"

struct site {
	UT_hash_handle hh;    /* by function */
	const char *function; /* both belong to the profile */
	const char *binary;
	struct stack_counts counts; /* since the start */
	uint64_t recent_bytes;
	struct in_use in_use;
};

/* Adds the samples of a profile to a hash table of sites; NULL is an empty one. */
void sites_add(struct site **sites, const struct profile *profile, bool recent);
/* Sorts by recent bytes, then by bytes; the highest first. */
void sites_sort(struct site **sites);
void sites_free(struct site **sites);

#endif /* HABD_SITES_H */
