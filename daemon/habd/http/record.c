// SPDX-License-Identifier: GPL-2.0-only
/*
 * Recordings: profiles between a start and a stop, or one after the other without a gap.
 *
 * A recording of the viewer is one in each collector, too, under the same token: its start, keep
 * and end come as requests. If a collector was started after the recording, all samples of the
 * collector belong to it. If an older collector does not have the token, its part of the recording
 * begins at the request that names the token: so no sample is in a recording twice.
 *
 * No recording stays without a client: one that no request has named for an hour ends. One that is
 * being used is marked busy, and no other thread uses or ends it. So no lock is held while
 * collectors are asked.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "daemon/habd/http/handlers.h"
#include "daemon/shared/util.h"

#define SETTLE_MS 550
/* More than the seconds of a profile, as the viewer names those only at their start and end. */
#define ABANDONED_NS 3700000000000ull

struct recordings {
	pthread_mutex_t lock;
	struct recording *list;
};

struct recordings *recordings_new(void)
{
	struct recordings *recordings = xcalloc(1, sizeof(*recordings));

	pthread_mutex_init(&recordings->lock, NULL);
	return recordings;
}

void recordings_free(struct state *state, struct recordings *recordings)
{
	recordings_tidy(state, recordings, UINT64_MAX);
	pthread_mutex_destroy(&recordings->lock);
	free(recordings);
}

static void drop_locked(struct state *state, struct recordings *recordings,
			struct recording *recording)
{
	DL_DELETE(recordings->list, recording);
	limits_give_back(recording->limit, 1);
	span_drop(state, &recording->span);
	filter_end(&recording->filter);
	free(recording);
}

/* The collectors tidy theirs themselves: this must not wait for them. */
void recordings_tidy(struct state *state, struct recordings *recordings, uint64_t now_ns)
{
	struct recording *each, *next;

	pthread_mutex_lock(&recordings->lock);
	DL_FOREACH_SAFE(recordings->list, each, next)
	{
		if (!each->busy && now_ns > each->named_ns + ABANDONED_NS &&
		    (now_ns == UINT64_MAX || strcmp(each->span.token, SPAN_HISTORY) != 0))
			drop_locked(state, recordings, each);
	}
	pthread_mutex_unlock(&recordings->lock);
}

static enum limited limit_of(const struct request *request)
{
	return request->is_part ? LIMITED_VIEWER_RECORDINGS : LIMITED_RECORDINGS;
}

/*
 * The recording of that token, which becomes busy, or a new one. NULL: it is busy, or there is none
 * of that token and none can be made.
 */
static struct recording *take(struct request *request, const char *token, bool may_be_new)
{
	struct recordings *recordings = request->recordings;
	enum limited limit = limit_of(request);
	struct recording *found;

	pthread_mutex_lock(&recordings->lock);
	DL_FOREACH(recordings->list, found)
	{
		if (found->limit == limit && token && !strcmp(found->span.token, token))
			break;
	}
	if (!found && may_be_new && limits_take(limit, 1)) {
		found = xcalloc(1, sizeof(*found));
		found->limit = limit;
		if (token)
			snprintf(found->span.token, sizeof(found->span.token), "%s", token);
		DL_APPEND(recordings->list, found);
	}
	if (found && found->busy)
		found = NULL;
	if (found) {
		found->busy = true;
		found->named_ns = clock_monotonic_ns();
	}
	pthread_mutex_unlock(&recordings->lock);
	return found;
}

void recording_give(struct request *request, struct recording *recording, bool ends)
{
	if (ends)
		span_end(request->state, &recording->span);
	pthread_mutex_lock(&request->recordings->lock);
	recording->busy = false;
	if (ends)
		drop_locked(request->state, request->recordings, recording);
	pthread_mutex_unlock(&request->recordings->lock);
}

struct recording *recording_of_viewer(struct request *request, const char *token, uint64_t begun_ns)
{
	struct recording *recording = take(request, token, true);
	struct state *state = request->state;

	if (!recording || recording->span.start_monotonic_ns)
		return recording;
	span_begin(state, &recording->span, token);
	if (state->start_monotonic_ns >= begun_ns) {
		span_drop(state, &recording->span);
		recording->span.start_ns = state->start_ns;
		recording->span.start_monotonic_ns = state->start_monotonic_ns;
	}
	return recording;
}

void http_record_start(struct request *request, struct reply *reply)
{
	const char *token = request->is_part ? request_parameter(request, "token") : NULL;
	struct recording *recording;
	struct filter filter;

	/* A recording of the viewer's counts in the viewer, not here. */
	if ((!request->is_part && !reply_take(reply, LIMITED_MARKS, 0)) ||
	    !request_filter(request, reply, &filter))
		return;
	recording = take(request, token, true);
	if (!recording) {
		filter_end(&filter);
		reply_refused(reply, limit_of(request));
		return;
	}
	/* The viewer may name one that there is. */
	span_drop(request->state, &recording->span);
	filter_end(&recording->filter);
	recording->filter = filter;
	span_begin(request->state, &recording->span, token);
	fprintf(reply->body, "%s\n", recording->span.token);
	recording_give(request, recording, false);
}

/* The recording of the request's token, or NULL after reply_error(). */
static struct recording *take_named(struct request *request, struct reply *reply)
{
	const char *token = request_parameter(request, "token");
	struct recording *recording = token ? take(request, token, false) : NULL;

	if (!recording)
		reply_error(reply, 400,
			    "token=%s is no running recording: a recording ends after an hour "
			    "without a request for it.",
			    token ? token : "");
	return recording;
}

void http_record_keep(struct request *request, struct reply *reply)
{
	struct recording *recording = take_named(request, reply);

	if (!recording)
		return;
	span_keep(request->state, &recording->span);
	recording_give(request, recording, false);
	fputs("kept\n", reply->body);
}

void http_record_end(struct request *request, struct reply *reply)
{
	struct recording *recording = take_named(request, reply);

	if (!recording)
		return;
	recording_give(request, recording, true);
	fputs("ended\n", reply->body);
}

/* The next part of a recording, or the last one. */
static void reply_part(struct request *request, struct reply *reply, bool last)
{
	const struct profile_format *format = request_format(request, reply);
	struct recording *recording;
	enum profile_view view;

	if (!format || !request_view(request, reply, &view))
		return;
	recording = take_named(request, reply);
	if (!recording)
		return;
	/* The last samples may still be pending. */
	if (last)
		request_wait_ms(request, SETTLE_MS);
	reply_span(request, reply, &recording->span, &recording->filter, format, view, !last);
	recording_give(request, recording, last && reply->status == 200);
}

void http_record_next(struct request *request, struct reply *reply)
{
	reply_part(request, reply, false);
}

void http_record_stop(struct request *request, struct reply *reply)
{
	reply_part(request, reply, true);
}
