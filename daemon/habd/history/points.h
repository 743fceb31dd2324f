/* SPDX-License-Identifier: GPL-2.0-only */
/* The history as points of the timeline, one a file. */
#ifndef HABD_HISTORY_POINTS_H
#define HABD_HISTORY_POINTS_H

#include "daemon/habd/history/reader.h"
#include "daemon/habd/state/timeline.h"

struct history_points {
	struct timeline_point *points; /* the newest first; timeline_points_free() frees them */
	unsigned int count;
	unsigned int files; /* in the span */
	unsigned int unread;
};

/*
 * Reads what @filter selects, with all kinds of events, of the files of the span that start before
 * the time @before, in seconds since 1970. Of more than @most files it reads so many at even
 * distances. False: the directory cannot be read. At a limit of time, or when habd ends, it ends
 * early, and the oldest files are not read.
 */
bool history_points_read(const char *directory, const struct history_span *span, int64_t before,
			 const struct filter *filter, const struct history_limits *limits,
			 unsigned int most, struct history_points *points);

#endif /* HABD_HISTORY_POINTS_H */
