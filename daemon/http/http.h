/* SPDX-License-Identifier: GPL-2.0-only */
/* The HTTP side of habd: what is asked for, by whom, and the answer. */
#ifndef HABD_HTTP_H
#define HABD_HTTP_H

#include <stdbool.h>

#include "daemon/habd/habd.h"
#include "daemon/shared/util.h"

/* A connection that nothing comes or goes over for so long is closed. */
#define HTTP_IDLE_SECONDS 30u

struct MHD_Connection;
struct http;

struct request {
	struct habd *habd;
	struct http *http;
	struct MHD_Connection *connection;
	bool local; /* came by the Unix socket */
};

struct reply {
	unsigned int status; /* 0: the other side has gone */
	const char *type;
	const char *file_name; /* what a browser saves it as; NULL: it shows it */
	bool is_profile;
	struct profile_head head; /* of a profile */
	struct text body;
};

/* Takes both descriptors over; -1: not that one. NULL after a sentence. */
struct http *http_start(struct habd *habd, int tcp_fd, int unix_fd);
/* Ends all connections. Waiting ones end at once if stop_fd is readable. */
void http_stop(struct http *http);
/* Ends recordings that nobody came back for. */
void http_tidy(struct http *http);

/* For the handlers. */
const char *request_parameter(const struct request *request, const char *name);
/* False after an answer that says what is wrong. filter_end() frees. */
bool request_filter(const struct request *request, struct reply *reply, struct filter *filter);
/* The same for parameter format; pprof if there is none. */
bool request_format(const struct request *request, struct reply *reply,
		    enum profile_format *format);
/* False if the client went away or the daemon is to end. */
bool request_wait_ms(const struct request *request, uint64_t milliseconds);
/* Answers with the profile of a span, see span_write(). */
void reply_span(struct request *request, struct reply *reply, struct span *span,
		const struct filter *filter, enum profile_format format, bool again);
void reply_error(struct reply *reply, unsigned int status, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

struct recordings;
struct recordings *http_recordings(struct http *http);
struct recordings *recordings_new(void);
void recordings_free(struct habd *habd, struct recordings *recordings);
void recordings_tidy(struct habd *habd, struct recordings *recordings, uint64_t now_ns);

typedef void (*request_handler)(struct request *request, struct reply *reply);

void http_page(struct request *request, struct reply *reply);
void http_metrics(struct request *request, struct reply *reply);
void http_top(struct request *request, struct reply *reply);
void http_status(struct request *request, struct reply *reply);
void http_profile(struct request *request, struct reply *reply);
void http_pprof_allocs(struct request *request, struct reply *reply);
void http_record_start(struct request *request, struct reply *reply);
void http_record_next(struct request *request, struct reply *reply);
void http_record_keep(struct request *request, struct reply *reply);
void http_record_stop(struct request *request, struct reply *reply);

#endif /* HABD_HTTP_H */
