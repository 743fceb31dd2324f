// SPDX-License-Identifier: GPL-2.0-only
/* The parameters of a request, waiting for its client, and replies. */
#include "daemon/habd/http/request.h"

#include <errno.h>
#include <inttypes.h>
#include <microhttpd.h>
#include <poll.h>
#include <stdarg.h>
#include <string.h>
#include <time.h>

#include "daemon/habd/history/time.h"
#include "daemon/shared/kinds.h"
#include "daemon/shared/util.h"

const char *request_parameter(const struct request *request, const char *name)
{
	return MHD_lookup_connection_value(request->connection, MHD_GET_ARGUMENT_KIND, name);
}

static enum MHD_Result add_to_filter(void *filter, enum MHD_ValueKind kind, const char *name,
				     const char *value)
{
	return !filter_is_key(name) || filter_add(filter, name, value ? value : "") ? MHD_YES :
										      MHD_NO;
}

bool request_has_old(const struct request *request)
{
	return request_parameter(request, "old-since") || request_parameter(request, "old-until");
}

bool request_has_span(const struct request *request)
{
	return request_parameter(request, "since") || request_parameter(request, "until") ||
	       request_parameter(request, "ended") || request_has_old(request);
}

/* A kind that is not followed has no samples. False after reply_error(). */
static bool kinds_are_followed(const struct request *request, struct reply *reply, uint32_t kinds)
{
	uint32_t followed = request->state->kinds, missing = kinds & ~followed;
	char list[64], all[64];

	if (!missing)
		return true;
	kinds_text(missing, list, sizeof(list));
	kinds_text(followed | missing, all, sizeof(all));
	reply_error(
		reply, 400,
		"event=%s: this habd does not follow these events, so it has no samples of them: "
		"start it with --events %s.",
		list, all);
	return false;
}

bool request_filter(const struct request *request, struct reply *reply, struct filter *filter)
{
	memset(filter, 0, sizeof(*filter));
	MHD_get_connection_values(request->connection, MHD_GET_ARGUMENT_KIND, add_to_filter,
				  filter);
	if (*filter->why)
		reply_error(reply, 400, "%s.", filter->why);
	else if (request_has_span(request) || kinds_are_followed(request, reply, filter->kinds))
		return true;
	filter_end(filter);
	return false;
}

const struct profile_format *request_format(const struct request *request, struct reply *reply)
{
	const char *value = request_parameter(request, "format");
	const struct profile_format *format = profile_format(value ? value : "pprof");

	if (!format)
		reply_error(reply, 400,
			    "format=%s is unknown: it must be one of" PROFILE_FORMATS_NAMES ".", value);
	return format;
}

bool request_view(const struct request *request, struct reply *reply, enum profile_view *view)
{
	const char *value = request_parameter(request, "view");

	if (profile_view_of(value ? value : "allocated", view))
		return true;
	reply_error(reply, 400, "view=%s is unknown: it must be allocated, in-use or both.", value);
	return false;
}

int request_fd(const struct request *request)
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(request->connection, MHD_CONNECTION_INFO_CONNECTION_FD);

	return info ? info->connect_fd : -1;
}

bool request_is_awaited(const struct request *request)
{
	struct pollfd end = { .fd = request_fd(request), .events = POLLRDHUP };

	return !poll(&end, 1, 0);
}

static bool wait_ms(const struct request *request, uint64_t milliseconds)
{
	uint64_t end = clock_monotonic_ns() + milliseconds * 1000000, now;
	struct pollfd events[2] = {
		{ .fd = request->state->stop_fd, .events = POLLIN },
		{ .fd = request_fd(request), .events = POLLRDHUP },
	};

	while ((now = clock_monotonic_ns()) < end) {
		if (poll(events, ARRAY_SIZE(events), (int)((end - now) / 1000000 + 1)) < 0 &&
		    errno != EINTR)
			return false;
		if (events[0].revents || events[1].revents)
			return false;
	}
	return true;
}

bool request_time(const struct request *request, struct reply *reply, const char *name,
		  int64_t otherwise, int64_t *result)
{
	const char *value = request_parameter(request, name);

	*result = otherwise;
	if (!value || history_time_parse(value, (int64_t)time(NULL), result))
		return true;
	reply_error(reply, 400, "%s=%.100s: " HISTORY_TIME_HELP ".", name, value);
	return false;
}

bool request_wait_ms(const struct request *request, uint64_t milliseconds)
{
	bool good;

	/* The server's idle time-out does not count this wait. */
	MHD_set_connection_option(request->connection, MHD_CONNECTION_OPTION_TIMEOUT,
				  (unsigned int)(milliseconds / 1000) + 60);
	good = wait_ms(request, milliseconds);
	MHD_set_connection_option(request->connection, MHD_CONNECTION_OPTION_TIMEOUT,
				  REQUEST_IDLE_SECONDS);
	return good;
}

void reply_error(struct reply *reply, unsigned int status, const char *format, ...)
{
	char line[512];
	va_list list;

	va_start(list, format);
	vsnprintf(line, sizeof(line), format, list);
	va_end(list);
	clean_string(line);
	rewind(reply->body);
	fprintf(reply->body, "%s\n", line);
	reply->type = "text/plain; charset=utf-8";
	reply->status = status;
	reply->file_name = NULL;
}

void reply_refused(struct reply *reply, enum limited resource)
{
	const struct limit *limit = &limits[resource];

	reply_error(reply, 503, "Too many %s (at most %" PRIu64 "%s): %s.", limit->name,
		    limit->most, limit->unit, limit->next);
}

bool reply_take(struct reply *reply, enum limited resource, uint64_t amount)
{
	if (limits_take(resource, amount))
		return true;
	reply_refused(reply, resource);
	return false;
}

void reply_span(struct request *request, struct reply *reply, struct span *span,
		const struct filter *filter, const struct profile_format *format,
		enum profile_view view, bool restart)
{
	state_turn_begin(request->state);
	/* While it waited for its turn, others have made theirs. */
	if (reply_take(reply, LIMITED_ANSWERS, 0)) {
		reply->type = format->content_type;
		reply->is_profile = true;
		span_write(request->state, span, filter, format, view, restart, reply->body,
			   &reply->head);
	}
	state_turn_end(request->state);
}
