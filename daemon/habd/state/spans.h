/* SPDX-License-Identifier: GPL-2.0-only */
/* Spans of time and their profiles. */
#ifndef HABD_SPANS_H
#define HABD_SPANS_H

#include "daemon/profile/filter.h"
#include "daemon/profile/formats/formats.h"
#include "daemon/habd/state/state.h"

#define SPAN_TOKEN   32 /* the most characters; of a random one: hexadecimal digits */
#define SPAN_ALL     "all"
#define SPAN_RECENT  "recent"
#define SPAN_HISTORY "history"

struct span {
	char token[SPAN_TOKEN + 1]; /* SPAN_ALL, SPAN_RECENT, or what collectors know it by, too */
	struct stack_mark *mark;    /* NULL: the span begins with the daemon */
	uint64_t start_ns;
	uint64_t start_monotonic_ns;
	uint64_t duration_ns;	     /* of its last profile */
	bool is_of_viewer;	     /* in a collector */
	/* Its begin before the last restart, until span_settle(); in a collector. */
	struct {
		bool is_kept;
		struct stack_mark *mark;
		uint64_t start_ns, start_monotonic_ns;
	} before;
	const uint64_t *of_owner;    /* its profiles are of that one's collector alone; NULL: of all */
	unsigned int bytes_of_owner; /* of its profiles, see snapshots_profile() */
	bool at_end; /* its profile has the time of its end, and no duration: sums since the start */
};

/*
 * A span that begins now; NULL: with a token of its own. In the viewer it begins in all collectors:
 * this, span_keep() and span_end() wait for them, so the caller holds no lock.
 */
void span_begin(struct state *state, struct span *span, const char *token);
/* Collectors end a span that no request has named for an hour. */
void span_keep(struct state *state, const struct span *span);
void span_end(struct state *state, struct span *span);
/* The same without waiting: collectors are not told. */
void span_drop(struct state *state, struct span *span);
/* The span since the daemon started; it needs no span_end(). */
struct span span_all(const struct state *state);
/* The last 5 to 10 seconds; it needs no span_end(). */
struct span span_recent(void);

/* What is in a profile. */
struct profile_head {
	struct stack_counts total;
	uint32_t kinds;	      /* of events, a bit each */
	uint32_t other_kinds; /* present in the span, and left out */
	uint64_t folded;      /* samples of "[other stacks]", which the filter leaves out */
	uint64_t in_use;      /* bytes, estimated; 0 also if it is not known */
	uint64_t late_names;  /* functions that are addresses: their names did not come in time */
	unsigned int missing; /* collectors, as in struct profile */
	bool is_growth;	      /* its samples are those of the later span */
	unsigned int damaged; /* files of the history that are left out */
};

/* The profile of the span, with names. profile_free() frees it. The rest as of span_write(). */
struct profile *span_profile(struct state *state, struct span *span, const struct filter *filter);
/* The same, with events, and with a restart as of span_write(). */
struct profile *span_collect(struct state *state, struct span *span, const struct filter *filter,
			     bool has_events, bool restart);
/*
 * After span_collect() with a restart in a collector: if the profile has not @arrived, the next one
 * begins where it began, so that each sample is in one.
 */
void span_settle(struct state *state, struct span *span, bool arrived);
/*
 * Writes the profile of the span from its start to now. restart: the span begins anew at this very
 * moment, so that each sample is in one profile. The caller has a turn.
 */
void span_write(struct state *state, struct span *span, const struct filter *filter,
		const struct profile_format *format, enum profile_view view, bool restart,
		FILE *out, struct profile_head *head);

#endif /* HABD_SPANS_H */
