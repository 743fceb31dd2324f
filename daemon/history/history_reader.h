/* SPDX-License-Identifier: GPL-2.0-only */
/* Reads a span of a history, with or without a habd. */
#ifndef HABD_HISTORY_READER_H
#define HABD_HISTORY_READER_H

#include "daemon/profile/filter.h"
#include "daemon/profile/profile.h"

/* In seconds since 1970. Files that are partly in the span count as a whole. */
struct history_span {
	int64_t since, until;
};

/* The end of a span until now: starts of files are rounded, and one may begin in this second. */
static inline int64_t history_until_now(int64_t now)
{
	return now + 2;
}

struct history_found {
	unsigned int files;    /* that were read */
	unsigned int unread;   /* damaged ones, which are left out */
	int64_t start, end;    /* of what was read */
	bool unreadable;       /* the directory is, for this user */
	bool has_errors;       /* standard errors of its estimates */
	char first_unread[64]; /* a name */
	char why[512];	       /* a sentence: why the first was not read, or none at all */
};

/*
 * Reads what @filter selects: what was allocated in the span, and what is in use at its end.
 * profile_free() frees it. NULL: see @found->why; also if there are more than @most stacks.
 */
struct profile *history_read(const char *directory, const struct history_span *span,
			     const struct filter *filter, unsigned int most,
			     struct history_found *found);

#endif /* HABD_HISTORY_READER_H */
