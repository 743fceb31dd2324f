/* SPDX-License-Identifier: GPL-2.0-only */
/* Reports: samples summed up by site, stack, process and so on. */
#ifndef HABD_REPORT_H
#define HABD_REPORT_H

#include "daemon/profile/confidence.h"
#include "daemon/profile/profile.h"
#include "daemon/shared/hash.h"
#include "daemon/shared/string_table.h"

enum report_by {
	BY_SITE, /* the program's function that allocates */
	BY_STACK,
	BY_PROCESS,
	BY_COMM,
	BY_HEAP,
	BY_TAG,
	BY_CGROUP,
	REPORT_BYS, /* the number of these */
};

/* The samples of an owner, whose sizes say nothing about those of another's; or of all. */
struct report_owner {
	UT_hash_handle hh;
	uint64_t owner;
	struct stack_counts totals[2][HAB_KINDS];
	struct in_use in_use[2][HAB_KINDS];
};

struct report_row {
	const char *name;
	const struct profile *profile; /* this and the next: of its first sample */
	const struct profile_sample *sample;
	uint32_t kind;
	const struct report_owner *owner; /* all, if the row is of several */
	struct stack_counts counts[2];	/* of the old and of the new profile */
	struct in_use in_use[2];
	double change; /* bytes a second; of what is in use: bytes */
};

struct report {
	enum report_by by;
	const struct profile *profiles[2]; /* the new one, or NULL, is the second */
	double per_second[2];		   /* factors from bytes to bytes a second */
	bool many_kinds;
	bool in_use; /* the profiles show what is in use */
	struct report_owner all;
	struct report_owner *owners;
	struct strings names; /* whole ones; number n is that of row n - 1 */
	struct strings shown;
	struct report_row *rows;
	unsigned int count;
	unsigned int room;
};

/* REPORT_BYS if there is none of that name. */
enum report_by report_by(const char *name);

/* in_use: after profile_show_in_use(). Rows are sorted by bytes, with two profiles by the
 * difference. report_end() frees. */
void report_begin(struct report *report, enum report_by by, bool in_use, const struct profile *one,
		  const struct profile *two);
void report_end(struct report *report);

/* A row has these sums, each with an interval. */
enum report_quantity { REPORT_BYTES, REPORT_EVENTS, REPORT_IN_USE };

/* The sum of the old profile, or of the only one. */
double report_sum(const struct report_row *row, enum report_quantity quantity);
struct interval report_interval(const struct report *report, const struct report_row *row,
				enum report_quantity quantity);
/* The interval of the row's change. */
struct interval report_change(const struct report *report, const struct report_row *row);

#endif /* HABD_REPORT_H */
