/* SPDX-License-Identifier: GPL-2.0-only */
/* Rows of a report: samples summed up by what a person asks for. */
#ifndef HABCTL_REPORT_H
#define HABCTL_REPORT_H

#include "daemon/profile/profile.h"
#include "daemon/shared/string_table.h"

enum report_by {
	BY_SITE, /* the function that allocates */
	BY_STACK,
	BY_PROCESS,
	BY_COMM,
	BY_HEAP,
	BY_TAG,
	BY_CGROUP,
	BY_NOTHINGS, /* how many there are */
};

struct report_row {
	const char *name;
	uint32_t kind;
	struct stack_counts counts[2]; /* of the old and the new profile, or the first alone */
	double change;		       /* bytes a second */
};

struct report {
	enum report_by by;
	const struct profile *profiles[2]; /* the second: NULL, or the new one */
	double per_second[2];		   /* to multiply bytes with */
	bool many_kinds;
	struct stack_counts totals[2][HAB_EVENT_KINDS];
	struct strings names;
	struct report_row *rows;
	unsigned int count;
	unsigned int room;
};

/* BY_NOTHINGS if there is none of that name. */
enum report_by report_by(const char *name);

/* Sorted: by bytes, or with a second profile by their difference. report_end() frees. */
void report_begin(struct report *report, enum report_by by, const struct profile *one,
		  const struct profile *two);
void report_end(struct report *report);

/* limit: how many rows; 0: all. intervals: whether they are known. */
void report_table(const struct report *report, unsigned int limit, bool intervals,
		  struct text *out);
void report_table_diff(const struct report *report, unsigned int limit, bool intervals,
		       struct text *out);
/* Stacks with two numbers of bytes; the report must be by stack. */
void report_folded_diff(const struct report *report, struct text *out);

#endif /* HABCTL_REPORT_H */
