// SPDX-License-Identifier: GPL-2.0-only
/*
 * Profiles of the next seconds, since the start, or of a span of the history.
 *
 * A thread never waits for a client that has disconnected, though a profile may be of an hour:
 * request_wait_ms() watches the connection, too.
 */
#include "daemon/habd/http/handlers.h"

#include "daemon/shared/util.h"

#define SECONDS_MAX 3600

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

static void answer_profile(struct request *request, struct reply *reply, struct span *span,
			   uint64_t seconds, const struct filter *filter,
			   const struct profile_format *format, enum profile_view view)
{
	reply->file_name = format->file_name;
	if (!seconds) {
		reply_span(request, reply, span, filter, format, view, false);
		return;
	}
	if (!reply_take(reply, LIMITED_MARKS, 0) || !reply_take(reply, LIMITED_WAITING, 1))
		return;
	span_begin(request->state, span, NULL);
	if (request_wait_ms(request, seconds * 1000))
		reply_span(request, reply, span, filter, format, view, false);
	else
		reply->status = 0;
	span_end(request->state, span);
	limits_give_back(LIMITED_WAITING, 1);
}

/* @span: from the start; with @seconds it begins now. */
static void answer_filtered(struct request *request, struct reply *reply, struct span *span,
			    uint64_t seconds, const struct profile_format *format,
			    enum profile_view view)
{
	struct filter filter;

	if (!request_filter(request, reply, &filter))
		return;
	if (request_has_span(request))
		reply_history(request, reply, &filter, format, view);
	else
		answer_profile(request, reply, span, seconds, &filter, format, view);
	filter_end(&filter);
}

void http_profile(struct request *request, struct reply *reply)
{
	const struct profile_format *format = request_format(request, reply);
	struct span span = span_all(request->state);
	enum profile_view view;
	uint64_t seconds;

	if (format && request_view(request, reply, &view) &&
	    parse_seconds(request, reply, &seconds))
		answer_filtered(request, reply, &span, seconds, format, view);
}

/*
 * Scrapers of programs expect what Go's have: without seconds a profile has the time at which
 * it was made, and no duration. By the duration they see whether figures are of a span or are sums
 * since the start.
 */
void http_pprof_allocs(struct request *request, struct reply *reply)
{
	struct span span = span_all(request->state);
	uint64_t seconds;

	if (!parse_seconds(request, reply, &seconds))
		return;
	span.at_end = !seconds;
	answer_filtered(request, reply, &span, seconds, profile_format("pprof"), PROFILE_ALLOCATED);
}

/* What is in use is a state: seconds do not apply. Readers show it by default. */
void http_pprof_heap(struct request *request, struct reply *reply)
{
	struct span span = span_all(request->state);
	uint64_t ignored;

	if (!parse_seconds(request, reply, &ignored))
		return;
	span.at_end = true;
	answer_filtered(request, reply, &span, 0, profile_format("pprof"), PROFILE_IN_USE);
	if (reply->file_name)
		reply->file_name = "heap.pb.gz";
}
