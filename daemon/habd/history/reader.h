/* SPDX-License-Identifier: GPL-2.0-only */
/* Reads a span of a history, with or without a habd. */
#ifndef HABD_HISTORY_READER_H
#define HABD_HISTORY_READER_H

#include "daemon/habd/history/files.h"
#include "daemon/profile/filter.h"
#include "daemon/profile/profile.h"

/* The end of a span until now: starts of files are rounded, and one may begin in this second. */
static inline int64_t history_until_now(int64_t now)
{
	return now + 2;
}

/* What a reader for other users does at most. */
struct history_limits {
	unsigned int stacks, frames;
	unsigned int seconds;
	/* The reading ends once the first is readable, or the peer of the second has closed it; -1:
	 * there is none. */
	int stop_fd, client_fd;
};

/* True if the reading must end, because habd or the client does. */
bool history_must_end(const struct history_limits *limits);

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
 * profile_free() frees it. NULL: see @found->why; also at one of the @limits. NULL: there are none.
 */
struct profile *history_read(const char *directory, const struct history_span *span,
			     const struct filter *filter, const struct history_limits *limits,
			     struct history_found *found);

#endif /* HABD_HISTORY_READER_H */
