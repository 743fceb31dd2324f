// SPDX-License-Identifier: GPL-2.0-only
/*
 * Profiles of the next seconds, since the start, or of a span of the history.
 *
 * A thread never waits for a client that has disconnected, though a profile may be of an hour:
 * request_wait_ms() watches the connection, too.
 */
#include "daemon/habd/http/handlers.h"

#include "daemon/shared/util.h"

#define NS_MIN 1000000u
#define NS_MAX 3600000000000ull

static bool parse_seconds(const struct request *request, struct reply *reply, uint64_t *ns)
{
	const char *value = request_parameter(request, "seconds");

	*ns = 0;
	if (!value || (parse_duration(value, false, ns) && *ns >= NS_MIN && *ns <= NS_MAX))
		return true;
	reply_error(reply, 400, "seconds=%s is not a number from 0.001 to 3600.", value);
	return false;
}

static void answer_profile(struct request *request, struct reply *reply, struct span *span,
			   uint64_t ns, const struct filter *filter,
			   const struct profile_format *format, enum profile_view view)
{
	reply->file_name = format->file_name;
	if (!ns) {
		reply_span(request, reply, span, filter, format, view, false);
		return;
	}
	if (!reply_take(reply, LIMITED_MARKS, 0) || !reply_take(reply, LIMITED_WAITING, 1))
		return;
	span_begin(request->state, span, NULL);
	if (request_wait_ms(request, ns / NS_MIN))
		reply_span(request, reply, span, filter, format, view, false);
	else
		reply->status = 0;
	span_end(request->state, span);
	limits_give_back(LIMITED_WAITING, 1);
}

/* @span: from the start; with @ns it begins now. */
static void answer_filtered(struct request *request, struct reply *reply, struct span *span,
			    uint64_t ns, const struct profile_format *format,
			    enum profile_view view)
{
	struct filter filter;

	if (!request_filter(request, reply, &filter))
		return;
	if (request_has_span(request))
		reply_history(request, reply, &filter, format, view);
	else
		answer_profile(request, reply, span, ns, &filter, format, view);
	filter_end(&filter);
}

void http_profile(struct request *request, struct reply *reply)
{
	const struct profile_format *format = request_format(request, reply);
	struct span span = span_all(request->state);
	enum profile_view view;
	uint64_t ns;

	if (format && request_view(request, reply, &view) &&
	    parse_seconds(request, reply, &ns))
		answer_filtered(request, reply, &span, ns, format, view);
}

/*
 * Scrapers of programs expect what Go's have: without seconds a profile has the time at which
 * it was made, and no duration. By the duration they see whether figures are of a span or are sums
 * since the start.
 */
void http_pprof_allocs(struct request *request, struct reply *reply)
{
	struct span span = span_all(request->state);
	uint64_t ns;

	if (!parse_seconds(request, reply, &ns))
		return;
	span.at_end = !ns;
	answer_filtered(request, reply, &span, ns, profile_format("pprof"), PROFILE_ALLOCATED);
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
