/* SPDX-License-Identifier: GPL-2.0-only */
/* Makes profiles of the stack table. */
#ifndef HABD_COLLECT_H
#define HABD_COLLECT_H

#include "daemon/profile/filter.h"
#include "daemon/collect/binaries.h"
#include "daemon/collect/stacks.h"
#include "daemon/profile/profile.h"

struct symbols;

/* A copy of a part of the stack table. */
struct profile_copy;

/*
 * Copies the stacks since @mark (NULL: all) that @filter selects (NULL: all). settled: without
 * pending samples. The caller holds the daemon's lock, which records wait for: all that takes
 * longer than a copy is done by profile_collect().
 */
struct profile_copy *profile_copy(struct stack_table *stacks, const struct stack_mark *mark,
				  struct binaries *binaries, const struct filter *filter,
				  bool settled);
/*
 * Adds the samples that are still logged, one by one; now_ns is of the feed's clock. The caller
 * holds the daemon's lock.
 */
void profile_copy_events(struct profile_copy *copy, struct stack_table *stacks,
			 const struct stack_mark *mark, uint64_t now_ns);
/*
 * Makes a profile of the copy, which it frees. @filter: as before, but its kinds may differ.
 * @duration_ns is the profile's. It needs no lock.
 */
struct profile *profile_collect(struct profile_copy *copy, const struct filter *filter,
				uint64_t duration_ns);
/* Names the frames, and sets late_names. It can take seconds, and needs no lock. */
void profile_name(struct profile *profile, struct symbols *symbols);

#endif /* HABD_COLLECT_H */
