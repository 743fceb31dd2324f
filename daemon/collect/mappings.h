/* SPDX-License-Identifier: GPL-2.0-only */
/* The executable mappings of one process, by address. */
#ifndef HABD_MAPPINGS_H
#define HABD_MAPPINGS_H

#include "daemon/collect/maps_reader.h"

struct mapping {
	uint64_t start;
	uint64_t end;
	uint64_t offset; /* in the file */
	uint64_t binary;
};

/* Zeroed at first. */
struct mappings {
	struct mapping *all; /* ascending */
	unsigned int nr;
	unsigned int room;
};

/*
 * Replaces the mappings by the first @most of @maps, whose descriptors are taken over. True if the
 * new ones differ from those that there were.
 */
bool mappings_set(struct mappings *mappings, struct binaries *binaries, struct maps *maps,
		  unsigned int most);
/*
 * Adds @maps, at most @most of them: each stands in place of those that it overlaps. @only_new: one
 * that overlaps any is left out.
 */
void mappings_add(struct mappings *mappings, struct binaries *binaries, struct maps *maps,
		  unsigned int most, bool only_new);
void mappings_end(struct mappings *mappings);
/*
 * Each frame, an address or an offset in the mapped file with a build id, as FRAME(). What is in no
 * mapping has the binary with its build id, or BINARY_UNKNOWN. Returns the first such frame, or
 * NULL. A frame with a name gets its id as the offset.
 */
const struct hab_frame *mappings_translate(const struct mappings *mappings,
					   struct binaries *binaries, const struct hab_frame *frames,
					   unsigned int nr, uint64_t *translated);

#endif /* HABD_MAPPINGS_H */
