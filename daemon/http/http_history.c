// SPDX-License-Identifier: GPL-2.0-only
/*
 * Profiles of spans of the history. A client gets what the filter of its rights selects, as of live
 * profiles: so a user reads the own processes' part of files that only group hab-read may read.
 */
#include <string.h>
#include <time.h>

#include "daemon/history/history_reader.h"
#include "daemon/history/history_time.h"
#include "daemon/history/history_writer.h"
#include "daemon/http/handlers.h"
#include "daemon/http/response.h"
#include "daemon/samples/stacks.h"

#define SECONDS_MAX 30 /* for a span: habctl waits for 60 */

static bool parse_time(const struct request *request, struct reply *reply, const char *name,
		       int64_t now, int64_t *result)
{
	const char *value = request_parameter(request, name);

	*result = now;
	if (!value || history_time_parse(value, now, result))
		return true;
	reply_error(reply, 400, "%s=%.100s: " HISTORY_TIME_HELP ".", name, value);
	return false;
}

/* False after reply_error(). */
static bool parse_span(const struct request *request, struct reply *reply,
		       const struct profile_format *format, struct history_span *span)
{
	int64_t now = (int64_t)time(NULL);

	if (!request->history)
		reply_error(reply, 400, "This habd keeps no history: start it with --history DIR.");
	else if (format->has_events)
		reply_error(
			reply, 400,
			"format=%s: the history has sums, and this format needs single samples.",
			format->name);
	else if (request_parameter(request, "seconds") || !request_parameter(request, "since"))
		reply_error(reply, 400, "A span has since, and may have until, but no seconds.");
	else if (parse_time(request, reply, "since", now, &span->since) &&
		 parse_time(request, reply, "until", history_until_now(now), &span->until))
		return true;
	return false;
}

static void write_profile(struct profile *profile, const struct history_found *found,
			  struct reply *reply, const struct profile_format *format,
			  enum profile_view view)
{
	profile->view = view;
	reply->type = format->content_type;
	reply->file_name = format->file_name;
	reply->is_profile = true;
	reply->head = (struct profile_head){ .total = profile->total,
					     .kinds = profile->kinds,
					     .other_kinds = profile->other_kinds,
					     .in_use = profile->total_in_use.bytes,
					     .damaged = found->unread };
	format->write(profile, reply->body);
}

void reply_history(struct request *request, struct reply *reply, const struct filter *filter,
		   const struct profile_format *format, enum profile_view view)
{
	const struct history_limits limits = { .stacks = STACKS_MAX_DEFAULT,
					       .frames = 4 * STACKS_MAX_DEFAULT,
					       .seconds = SECONDS_MAX,
					       .stop_fd = request->state->stop_fd };
	struct history_found found;
	struct history_span span;
	struct profile *profile = NULL;
	struct turn turn;

	if (!parse_span(request, reply, format, &span))
		return;
	request_turn_take(request, &turn);
	if (response_memory_is_full(request->user)) {
		reply_error(reply, 503, RESPONSE_MEMORY_FULL);
	} else {
		profile = history_read(history_directory(request->history), &span, filter, &limits,
				       &found);
		if (profile)
			write_profile(profile, &found, reply, format, view);
		else
			reply_error(reply, 404, "%s.", found.why);
		profile_free(profile);
	}
	request_turn_give(request, &turn);
}
