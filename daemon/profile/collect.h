/* SPDX-License-Identifier: GPL-2.0-only */
/* Makes profiles of the stack table. */
#ifndef HABD_COLLECT_H
#define HABD_COLLECT_H

#include "daemon/profile/filter.h"
#include "daemon/profile/profile.h"

struct symbols;

/*
 * Copies the stacks since @mark (NULL: all) that @filter selects (NULL: all). settled: without
 * pending samples. The caller holds the daemon's lock.
 */
struct profile *profile_collect(struct stack_table *stacks, const struct stack_mark *mark,
				struct binaries *binaries, const struct filter *filter,
				bool settled);
/*
 * Adds the samples that are still logged, one by one. duration_ns is set; now_ns is of the feed's
 * clock. The caller holds the daemon's lock.
 */
void profile_collect_events(struct profile *profile, struct stack_table *stacks,
			    const struct stack_mark *mark, uint64_t now_ns);
/* Names the frames, and sets late_names. It can take seconds, and needs no lock. */
void profile_name(struct profile *profile, struct symbols *symbols);

#endif /* HABD_COLLECT_H */
