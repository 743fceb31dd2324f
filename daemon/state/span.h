/* SPDX-License-Identifier: GPL-2.0-only */
/* A time span of the tables, and the profile of it. */
#ifndef HABD_SPAN_H
#define HABD_SPAN_H

#include <stdio.h>

#include "daemon/profile/profile.h"
#include "daemon/profile/filter.h"
#include "daemon/state/state.h"

struct span {
	struct stack_mark *mark; /* NULL: the span begins with the daemon */
	uint64_t start_ns;
	uint64_t start_monotonic_ns;
};

void span_begin(struct state *state, struct span *span);
void span_end(struct state *state, struct span *span);
/* The span since the daemon started; it needs no span_end(). */
struct span span_all(const struct state *state);

/* What is in a profile. */
struct profile_head {
	struct stack_counts total;
	uint32_t kinds;	      /* of events, a bit each */
	uint32_t other_kinds; /* present in the span, and left out */
	uint64_t folded;      /* samples of "[other stacks]", which the filter leaves out */
};

/*
 * Writes the profile of the span from its start to now. restart: the span begins anew at this very
 * moment, so that each sample is in one profile. False if the profile could not be compressed.
 */
bool span_write(struct state *state, struct span *span, const struct filter *filter,
		enum profile_format format, bool restart, FILE *out, struct profile_head *head);

#endif /* HABD_SPAN_H */
