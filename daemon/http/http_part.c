// SPDX-License-Identifier: GPL-2.0-only
/*
 * What a collector answers the viewer (daemon/parts/snapshots.h).
 *
 * The viewer names its spans by tokens of its own. A collector that has started since a span began
 * does not know the token: then the span begins with the collector, since all of it belongs in.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/http/handlers.h"
#include "daemon/parts/snapshots.h"
#include "daemon/profile/reduce.h"

#define SPANS_MAX    64
#define ABANDONED_NS 7200000000000ull

struct part_span {
	char token[SNAPSHOT_TOKEN + 1]; /* "": free */
	uint64_t named_ns;		/* CLOCK_MONOTONIC */
	bool busy;
	struct span span;
};

/* A process has one collector. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct part_span spans[SPANS_MAX];

static void drop_locked(struct state *state, struct part_span *span)
{
	span_end(state, &span->span);
	memset(span, 0, sizeof(*span));
}

/* NULL: all are in use, or it is in use. */
static struct part_span *take_span(struct state *state, const char *token, bool begin)
{
	uint64_t now = clock_monotonic_ns();
	struct part_span *span = NULL, *free_one = NULL, *each;

	pthread_mutex_lock(&lock);
	for (each = spans; each < spans + SPANS_MAX; each++) {
		if (*each->token && !each->busy && now - each->named_ns > ABANDONED_NS)
			drop_locked(state, each);
		if (*each->token && !strcmp(each->token, token))
			span = each;
		else if (!*each->token)
			free_one = each;
	}
	if (!span && free_one) {
		span = free_one;
		strcpy(span->token, token);
		span->span = span_all(state);
		if (begin)
			span_begin(state, &span->span);
	}
	if (span && span->busy)
		span = NULL;
	if (span) {
		span->busy = true;
		span->named_ns = now;
	}
	pthread_mutex_unlock(&lock);
	return span;
}

static void give_span(struct state *state, struct part_span *span, bool drop)
{
	pthread_mutex_lock(&lock);
	span->busy = false;
	if (drop)
		drop_locked(state, span);
	pthread_mutex_unlock(&lock);
}

static const char *token_of(struct request *request, struct reply *reply, const char *name)
{
	const char *token = request_parameter(request, name);

	if (token && strlen(token) <= SNAPSHOT_TOKEN && *token)
		return token;
	reply_error(reply, 400, "%s is missing or too long.", name);
	return NULL;
}

void http_part_begin(struct request *request, struct reply *reply)
{
	const char *token = token_of(request, reply, "span");
	struct part_span *span = token ? take_span(request->state, token, true) : NULL;

	if (span)
		give_span(request->state, span, false);
	fputs("begun\n", reply->body);
}

void http_part_end(struct request *request, struct reply *reply)
{
	const char *token = token_of(request, reply, "span");
	struct part_span *span = token ? take_span(request->state, token, false) : NULL;

	if (span)
		give_span(request->state, span, true);
	fputs("ended\n", reply->body);
}

static void write_profile(struct profile *profile, uint64_t bytes, struct reply *reply)
{
	struct snapshot_head head = { .nr_events = profile->nr_events,
				      .nr_weights = profile->nr_events ? profile->nr_samples : 0,
				      .folded = profile->folded,
				      .late_names = profile->late_names };
	unsigned int most = profile->nr_samples, i;
	char *data;
	size_t length;
	FILE *text;

	/* Events take their part. */
	bytes -= min(bytes / 2, head.nr_events * sizeof(struct logged_sample) + head.nr_weights * 8);
	for (;;) {
		text = text_open(&data, &length);
		profile_write_pprof(profile, text);
		text_close(text);
		if (length <= bytes || !most || head.nr_events)
			break;
		most = min(most / 2, (unsigned int)((double)most * (double)bytes / (double)length));
		profile_reduce(profile, most);
		free(data);
	}
	head.profile_bytes = length;
	fwrite(&head, sizeof(head), 1, reply->body);
	fwrite(data, length, 1, reply->body);
	fwrite(profile->events, sizeof(*profile->events), profile->nr_events, reply->body);
	for (i = 0; i < head.nr_weights; i++)
		fwrite(&profile->samples[i].counts.weight, sizeof(uint64_t), 1, reply->body);
	free(data);
}

static bool is_set(const struct request *request, const char *name)
{
	const char *value = request_parameter(request, name);

	return value && !strcmp(value, "1");
}

void http_part_profile(struct request *request, struct reply *reply)
{
	const char *token = token_of(request, reply, "span"), *bytes;
	struct state *state = request->state;
	struct part_span *named = NULL;
	struct span span = span_all(state);
	struct profile *profile;
	struct filter filter;
	uint64_t most = SNAPSHOT_BYTES_MAX;

	if (!token || !request_filter(request, reply, &filter))
		return;
	filter.each_kind = true;
	bytes = request_parameter(request, "bytes");
	/* Root has all the room there is. */
	if (bytes && state->owner)
		parse_number(bytes, 1024, SNAPSHOT_BYTES_MAX, &most);
	if (!strcmp(token, "recent"))
		span = span_recent();
	else if (strcmp(token, "all") != 0)
		named = take_span(state, token, false);
	profile = span_collect(state, named ? &named->span : &span, &filter,
			       is_set(request, "events"), named && is_set(request, "restart"));
	write_profile(profile, most - sizeof(struct snapshot_head), reply);
	profile_free(profile);
	if (named)
		give_span(state, named, false);
	reply->type = "application/octet-stream";
	filter_end(&filter);
}

/* Points as they are: each is followed by its entries. */
void http_part_timeline(struct request *request, struct reply *reply)
{
	const struct timeline_point **points;
	unsigned int count, i;

	pthread_mutex_lock(&request->state->lock);
	points = timeline_take(request->state->timeline, &count);
	pthread_mutex_unlock(&request->state->lock);
	for (i = 0; i < count; i++) {
		const uint64_t numbers[] = { points[i]->start_ns, points[i]->duration_ns,
					     points[i]->count };

		fwrite(numbers, sizeof(numbers), 1, reply->body);
		fwrite(points[i]->entries, sizeof(points[i]->entries[0]), points[i]->count,
		       reply->body);
	}
	timeline_put(points, count);
	reply->type = "application/octet-stream";
}
