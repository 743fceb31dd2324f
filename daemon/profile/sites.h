/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Samples summed up by site. A site is the function that allocates: the program's own function
 * next to the leaf.
 */
#ifndef HABD_SITES_H
#define HABD_SITES_H

#include "daemon/profile/profile.h"
#include "daemon/shared/string_table.h"

struct site {
	const char *function; /* lives as long as the table */
	const char *module;
	uint64_t bytes; /* estimated, since the start */
	uint64_t samples;
	uint64_t recent_bytes;
};

struct sites {
	struct strings names;
	struct strings modules;
	struct site *table;
	unsigned int count;
	unsigned int room;
};

void sites_begin(struct sites *sites);
void sites_add(struct sites *sites, const struct profile *profile, bool recent);
/* By recent bytes, then by bytes; the highest first. */
void sites_sort(struct sites *sites);
void sites_end(struct sites *sites);

#endif /* HABD_SITES_H */
