// SPDX-License-Identifier: GPL-2.0-only
/*
 * Profiles of spans of the history, for clients that could read its files, too.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "daemon/habd/history/end_files.h"
#include "daemon/habd/history/reader.h"
#include "daemon/habd/history/writer.h"
#include "daemon/habd/http/handlers.h"
#include "daemon/habd/http/response.h"
#include "daemon/profile/growth.h"
#include "daemon/profile/formats/read.h"
#include "daemon/collect/stacks.h"

#define SECONDS_MAX 30 /* for a span: habctl waits for 60 */

/* False after reply_error(). */
static bool parse_span(const struct request *request, struct reply *reply, const char *since,
		       const char *until, struct history_span *span)
{
	int64_t now = (int64_t)time(NULL);

	if (request_parameter(request, "seconds") || !request_parameter(request, since))
		reply_error(reply, 400, "A span has %s, and may have %s, but no seconds.", since,
			    until);
	else if (request_time(request, reply, since, now, &span->since) &&
		 request_time(request, reply, until, history_until_now(now), &span->until))
		return true;
	return false;
}

/* NULL after reply_error(). */
static struct profile *read_span(const struct request *request, struct reply *reply,
				 const struct history_span *span, const struct filter *filter,
				 struct history_found *found)
{
	const struct history_limits limits = { .stacks = STACKS_MAX_DEFAULT,
					       .frames = 4 * STACKS_MAX_DEFAULT,
					       .seconds = SECONDS_MAX,
					       .stop_fd = request->state->stop_fd,
					       .client_fd = request_fd(request) };
	struct profile *profile =
		history_read(history_directory(request->history), span, filter, &limits, found);

	if (!profile)
		reply_error(reply, 404, "%s.", found->why);
	return profile;
}

/* The profile of a process that was ended. NULL after reply_error(). */
static struct profile *read_end(const struct request *request, struct reply *reply,
				const char *name, const struct filter *filter,
				struct history_found *found)
{
	struct profile *profile;
	struct end_file file;
	char *path;

	memset(found, 0, sizeof(*found));
	if (request_parameter(request, "seconds") || request_parameter(request, "since") ||
	    request_parameter(request, "until") || request_has_old(request)) {
		reply_error(reply, 400, "A process that was ended has no seconds and no span.");
		return NULL;
	}
	if (!end_file_parse(name, &file)) {
		reply_error(reply, 404, "ended=%.200s is no name that /v1/timeline has in ended.",
			    name);
		return NULL;
	}
	path = xformat("%s/%s", history_directory(request->history), name);
	profile = profile_read_file(path, filter, &found->has_errors, found->why,
				    sizeof(found->why));
	free(path);
	if (!profile)
		reply_error(reply, 404, "%s: %s.", name, found->why);
	return profile;
}

struct profile *history_profile(const struct request *request, struct reply *reply,
				const struct filter *filter, struct profile **old,
				struct history_found *found)
{
	const char *ended = request_parameter(request, "ended");
	struct history_span span, old_span;
	struct filter same = *filter;
	struct history_found old_found;
	struct profile *profile;

	*old = NULL;
	if (!request->history) {
		reply_error(reply, 400, "This habd keeps no history: start it with --history DIR.");
		return NULL;
	}
	if (ended)
		return read_end(request, reply, ended, filter, found);
	if (!parse_span(request, reply, "since", "until", &span) ||
	    (request_has_old(request) &&
	     !parse_span(request, reply, "old-since", "old-until", &old_span)))
		return NULL;
	profile = read_span(request, reply, &span, filter, found);
	if (!profile || !request_has_old(request))
		return profile;
	same.kinds = profile->kinds;
	*old = read_span(request, reply, &old_span, &same, &old_found);
	if (!*old) {
		profile_free(profile);
		return NULL;
	}
	found->unread += old_found.unread;
	found->has_errors &= old_found.has_errors;
	return profile;
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
					     .is_growth = profile->is_growth,
					     .damaged = found->unread };
	format->write(profile, reply->body);
}

static void reply_spans(struct request *request, struct reply *reply, const struct filter *filter,
			const struct profile_format *format, enum profile_view view)
{
	struct history_found found;
	struct profile *profile, *old;

	profile = history_profile(request, reply, filter, &old, &found);
	if (!profile)
		return;
	if (old && view != PROFILE_ALLOCATED && !old->knows_in_use) {
		reply_error(reply, 404, "It is not known what was in use in the earlier span.");
		profile_free(profile);
		profile_free(old);
		return;
	}
	pthread_mutex_lock(&request->state->render);
	if (old)
		growth_of(profile, old);
	profile_free(old);
	write_profile(profile, &found, reply, format, view);
	pthread_mutex_unlock(&request->state->render);
	profile_free(profile);
}

void reply_history(struct request *request, struct reply *reply, const struct filter *filter,
		   const struct profile_format *format, enum profile_view view)
{
	if (format->has_events) {
		reply_error(reply, 400,
			    "format=%s: the history has sums, and this format needs single "
			    "samples.",
			    format->name);
		return;
	}
	if (request_has_old(request) && format->file_name) {
		reply_error(reply, 400,
			    "format=%s: a growth is one of" PROFILE_FORMATS_SHOWN
			    "; to compare two files see habctl report --diff.",
			    format->name);
		return;
	}
	state_turn_begin(request->state);
	if (reply_take(reply, LIMITED_ANSWERS, 0))
		reply_spans(request, reply, filter, format, view);
	state_turn_end(request->state);
}
