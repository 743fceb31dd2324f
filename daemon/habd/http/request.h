/* SPDX-License-Identifier: GPL-2.0-only */
/* A request and its reply, for the handlers. */
#ifndef HABD_REQUEST_H
#define HABD_REQUEST_H

#include <stdbool.h>
#include <stdio.h>

#include "daemon/shared/limits.h"
#include "daemon/habd/state/spans.h"

/* A connection without traffic is closed after this time. */
#define REQUEST_IDLE_SECONDS 30u

struct MHD_Connection;
struct history;
struct history_found;
struct recordings;

struct request {
	struct state *state;
	struct history *history; /* NULL: none is kept */
	struct recordings *recordings;
	struct MHD_Connection *connection;
	bool is_part; /* of the viewer to a collector */
	bool local;   /* over the Unix socket */
};

struct reply {
	unsigned int status; /* 0: the client has closed the connection */
	const char *type;
	const char *file_name; /* a browser saves the reply as this; NULL: it shows it */
	bool is_profile;
	struct profile_head head; /* of a profile */
	FILE *body;
};

const char *request_parameter(const struct request *request, const char *name);
/* The filter of the parameters; filter_end() frees it. False after reply_error(). */
bool request_filter(const struct request *request, struct reply *reply, struct filter *filter);
/* NULL if the parameter is wrong: then a reply says so. */
const struct profile_format *request_format(const struct request *request, struct reply *reply);
/* What a format with one figure shows: allocated, in-use or both. False as above. */
bool request_view(const struct request *request, struct reply *reply, enum profile_view *view);
/* A time in seconds since 1970; @otherwise without the parameter. False after reply_error(). */
bool request_time(const struct request *request, struct reply *reply, const char *name,
		  int64_t otherwise, int64_t *result);
/* The client's connection, to be polled. */
int request_fd(const struct request *request);
/* False if the client has closed the connection. */
bool request_is_awaited(const struct request *request);
/* False if the client closed the connection, or if the daemon ends. */
bool request_wait_ms(const struct request *request, uint64_t milliseconds);

/* Replaces the body by a sentence. */
void reply_error(struct reply *reply, unsigned int status, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* Replies that there is too much of the resource. */
void reply_refused(struct reply *reply, enum limited resource);
/* As limits_take(). False after that. */
bool reply_take(struct reply *reply, enum limited resource, uint64_t amount);
/* Replies with the profile of a span, see span_write(); or by reply_error(). */
void reply_span(struct request *request, struct reply *reply, struct span *span,
		const struct filter *filter, const struct profile_format *format,
		enum profile_view view, bool restart);

/* True if the parameters name a span of the history, one to compare with, or an end. */
bool request_has_span(const struct request *request);
/* True if the parameters name an earlier span to compare with: old-since and old-until. */
bool request_has_old(const struct request *request);
/*
 * The profile of the history from since until until, or the file ended. *old: that of the earlier
 * span, else NULL.
 * profile_free() frees both. NULL after reply_error(). The caller has a turn.
 */
struct profile *history_profile(const struct request *request, struct reply *reply,
				const struct filter *filter, struct profile **old,
				struct history_found *found);
/* Replies with the profile, or the growth, of the spans of the parameters; or by reply_error(). */
void reply_history(struct request *request, struct reply *reply, const struct filter *filter,
		   const struct profile_format *format, enum profile_view view);

#endif /* HABD_REQUEST_H */
