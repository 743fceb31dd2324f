// SPDX-License-Identifier: GPL-2.0-only
/*
 * Answers requests for profiles of the next seconds, or since the start.
 *
 * The hard case is the client that asks for an hour and goes away: its thread
 * would hold a place until the end. So the wait watches the connection too.
 */
#include <microhttpd.h>
#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/http/http.h"
#include "daemon/http/sending.h"

#define SECONDS_MAX 3600
#define SPANS_MAX   16 /* profiles that wait at the same time */

static bool parse_seconds(const struct request *request, struct reply *reply, uint64_t *seconds)
{
	const char *value = request_parameter(request, "seconds");

	*seconds = 0;
	if (!value || parse_number(value, 1, SECONDS_MAX, seconds))
		return true;
	reply_error(reply, 400, "seconds=%s is not a whole number from 1 to %d.", value,
		    SECONDS_MAX);
	return false;
}

bool request_format(const struct request *request, struct reply *reply, enum profile_format *format)
{
	const char *value = request_parameter(request, "format");

	*format = PROFILE_PPROF;
	if (!value)
		return true;
	*format = profile_format(value);
	if (*format != PROFILE_FORMATS)
		return true;
	reply_error(reply, 400, "format=%s is not known: it is pprof, folded, svg, html or jfr.",
		    value);
	return false;
}

static bool wait_ms(const struct request *request, uint64_t milliseconds)
{
	const union MHD_ConnectionInfo *info;
	uint64_t end = clock_monotonic_ns() + milliseconds * 1000000, now;
	struct pollfd events[2] = {
		{ .fd = request->habd->stop_fd, .events = POLLIN },
		{ .fd = -1, .events = POLLRDHUP },
	};

	info = MHD_get_connection_info(request->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
	if (info)
		events[1].fd = info->connect_fd;
	while ((now = clock_monotonic_ns()) < end) {
		if (poll(events, ARRAY_SIZE(events), (int)((end - now) / 1000000 + 1)) < 0 &&
		    errno != EINTR)
			return false;
		if (events[0].revents || events[1].revents)
			return false;
	}
	return true;
}

bool request_wait_ms(const struct request *request, uint64_t milliseconds)
{
	bool good;

	/* The server's own time-out must not take the wait for idleness, but what comes after. */
	MHD_set_connection_option(request->connection, MHD_CONNECTION_OPTION_TIMEOUT,
				  (unsigned int)(milliseconds / 1000) + 60);
	good = wait_ms(request, milliseconds);
	MHD_set_connection_option(request->connection, MHD_CONNECTION_OPTION_TIMEOUT,
				  HTTP_IDLE_SECONDS);
	return good;
}

static atomic_uint waiting;

static bool waiting_begin(void)
{
	if (atomic_fetch_add(&waiting, 1) < SPANS_MAX)
		return true;
	atomic_fetch_sub(&waiting, 1);
	return false;
}

static void waiting_end(void)
{
	atomic_fetch_sub(&waiting, 1);
}

void reply_span(struct request *request, struct reply *reply, struct span *span,
		const struct filter *filter, enum profile_format format, bool again)
{
	reply->type = profile_content_type(format);
	reply->is_profile =
		span_write(request->habd, span, filter, format, again, &reply->body, &reply->head);
	if (!reply->is_profile)
		reply_error(reply, 500, "The profile could not be compressed.");
}

static void answer_profile(struct request *request, struct reply *reply, uint64_t seconds,
			   const struct filter *filter, enum profile_format format)
{
	struct span span = span_all(request->habd);

	if (format == PROFILE_PPROF)
		reply->file_name = "allocs.pb.gz";
	if (format == PROFILE_JFR)
		reply->file_name = "allocs.jfr";
	if (!seconds) {
		reply_span(request, reply, &span, filter, format, false);
		return;
	}
	if (!waiting_begin()) {
		reply_error(reply, 503,
			    "%d profiles are being made at the moment: ask again "
			    "when one is done.",
			    SPANS_MAX);
		return;
	}
	span_begin(request->habd, &span);
	if (request_wait_ms(request, seconds * 1000))
		reply_span(request, reply, &span, filter, format, false);
	else
		reply->status = 0;
	span_end(request->habd, &span);
	waiting_end();
}

static void answer_filtered(struct request *request, struct reply *reply,
			    enum profile_format format)
{
	struct filter filter;
	uint64_t seconds;

	/* Numbers are small, and recordings would be lost. */
	if (sending_is_full()) {
		reply_error(reply, 503,
			    "Too much is waiting for clients that do not read their profiles: ask "
			    "again in a minute.");
		return;
	}
	if (!parse_seconds(request, reply, &seconds) || !request_filter(request, reply, &filter))
		return;
	answer_profile(request, reply, seconds, &filter, format);
	filter_end(&filter);
}

void http_profile(struct request *request, struct reply *reply)
{
	enum profile_format format;

	if (request_format(request, reply, &format))
		answer_filtered(request, reply, format);
}

void http_pprof_allocs(struct request *request, struct reply *reply)
{
	answer_filtered(request, reply, PROFILE_PPROF);
}
