// SPDX-License-Identifier: GPL-2.0-only
/* What a collector answers the viewer (daemon/habd/parts/snapshots.h). */
#include <stdlib.h>
#include <string.h>

#include "daemon/habd/http/handlers.h"
#include "daemon/habd/parts/snapshots.h"
#include "daemon/profile/formats/table.h"
#include "daemon/profile/reduce.h"

static void write_profile(struct profile *profile, uint64_t bytes, struct reply *reply)
{
	struct snapshot_head head = { .folded = profile->folded,
				      .late_names = profile->late_names };
	unsigned int most = profile->nr_samples, i;
	const struct logged_sample *events;
	uint64_t weights;
	char *data;
	size_t length;
	FILE *text;

	for (;;) {
		text = text_open(&data, &length);
		profile_write_pprof(profile, text);
		text_close(text);
		weights = profile->nr_events ? profile->nr_samples * sizeof(uint64_t) : 0;
		/* Half of the room is for events. */
		if (length + weights <= (profile->nr_events ? bytes / 2 : bytes) || !most)
			break;
		most = min(most / 2, (unsigned int)((double)most * (double)bytes / (double)length));
		profile_reduce(profile, most);
		free(data);
	}
	head.profile_bytes = length;
	/* The last ones. The others are in the sums of their stacks, as those of a full log are. */
	head.nr_events = min((uint64_t)profile->nr_events,
			     (bytes - min(bytes, length + weights)) / sizeof(*events));
	events = profile->events + (profile->nr_events - head.nr_events);
	head.nr_weights = weights / sizeof(uint64_t);
	fwrite(&head, sizeof(head), 1, reply->body);
	fwrite(data, length, 1, reply->body);
	fwrite(events, sizeof(*events), head.nr_events, reply->body);
	for (i = 0; i < head.nr_weights; i++)
		fwrite(&profile->samples[i].counts.weight, sizeof(uint64_t), 1, reply->body);
	free(data);
}

static bool is_set(const struct request *request, const char *name)
{
	const char *value = request_parameter(request, name);

	return value && !strcmp(value, "1");
}

static void reply_profile(struct request *request, struct reply *reply, struct span *span,
			  const struct filter *filter)
{
	const char *bytes = request_parameter(request, "bytes");
	struct state *state = request->state;
	uint64_t most = SNAPSHOT_BYTES_MAX;
	struct profile *profile;

	/* Root has all the room there is. */
	if (bytes && state->owner)
		parse_number(bytes, 1024, SNAPSHOT_BYTES_MAX, &most);
	profile = span_collect(state, span, filter, is_set(request, "events"),
			       is_set(request, "restart"));
	write_profile(profile, most - sizeof(struct snapshot_head), reply);
	profile_free(profile);
	/* The viewer does not wait for names that take long, nor for a process that was stopped. */
	span_settle(state, span, request_is_awaited(request));
	reply->type = "application/octet-stream";
}

void http_part_profile(struct request *request, struct reply *reply)
{
	const char *name = request_parameter(request, "span");
	const char *begun = request_parameter(request, "begun");
	struct span span = span_all(request->state);
	uint64_t begun_ns = 0;
	struct recording *recording;
	struct filter filter;

	if (!name || !request_filter(request, reply, &filter))
		return;
	filter.each_kind = true;
	if (begun)
		parse_number(begun, 0, UINT64_MAX, &begun_ns);
	if (!strcmp(name, SPAN_RECENT))
		span = span_recent();
	if (!strcmp(name, span.token)) {
		reply_profile(request, reply, &span, &filter);
	} else if ((recording = recording_of_viewer(request, name, begun_ns))) {
		reply_profile(request, reply, &recording->span, &filter);
		recording_give(request, recording, false);
	} else {
		reply_error(reply, 503, "Another request uses this span.");
	}
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
