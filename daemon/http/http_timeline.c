// SPDX-License-Identifier: GPL-2.0-only
/*
 * /v1/timeline, as JSON: bytes a second and bytes in use of the processes that have most of them,
 * from the history and from memory, and the sums of all others.
 *
 * Bytes of two kinds of events are never summed up: an answer has one kind, the same at all times.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "daemon/history/history_points.h"
#include "daemon/history/history_time.h"
#include "daemon/history/history_writer.h"
#include "daemon/http/handlers.h"
#include "daemon/http/response.h"
#include "daemon/shared/hash.h"
#include "daemon/shared/kinds.h"

#define SECOND_NS    1000000000ull
#define FILES_MAX    360u
#define READ_SECONDS 10u
#define LINES	     20u /* processes in an answer */

/* One process over time. */
struct line {
	UT_hash_handle hh;
	struct timeline_entry key; /* without bytes */
	double weight;		   /* the larger of its shares of what is allocated and in use */
	uint64_t bytes, in_use;	   /* sum; maximum */
	unsigned int index;	   /* of the answer's lines */
};

struct answer {
	struct timeline_point *points; /* the files', then those of memory */
	unsigned int count;
	struct history_points history;
	uint32_t kinds;	    /* one of them, a bit */
	struct line *lines; /* a hash table */
};

#define KEY_SIZE offsetof(struct timeline_entry, bytes)

static struct timeline_entry key_of(const struct timeline_entry *entry)
{
	struct timeline_entry key = *entry;

	key.bytes = key.in_use = 0;
	return key;
}

static bool is_selected(const struct filter *filter, const struct timeline_entry *entry)
{
	struct stack_key key = { .pid = entry->pid, .uid = entry->uid };

	memcpy(key.comm, entry->comm, sizeof(key.comm));
	return filter_matches(filter, &key);
}

/* Drops what the client may not read or has not asked for. Returns the kinds that are left. */
static uint32_t select_entries(const struct filter *filter, struct timeline_point *point)
{
	unsigned int i, kept = 0;
	uint32_t kinds = 0;

	for (i = 0; i < point->count; i++)
		if (is_selected(filter, &point->entries[i])) {
			point->entries[kept++] = point->entries[i];
			kinds |= 1u << point->entries[i].kind;
		}
	point->count = kept;
	return kinds;
}

static void add_entry(struct answer *answer, const struct timeline_entry *entry)
{
	struct timeline_entry key = key_of(entry);
	struct line *line;

	HASH_FIND(hh, answer->lines, &key, KEY_SIZE, line);
	if (!line) {
		line = xcalloc(1, sizeof(*line));
		line->key = key;
		HASH_ADD_KEYPTR(hh, answer->lines, &line->key, KEY_SIZE, line);
	}
	line->bytes = hab_add_saturated(line->bytes, entry->bytes);
	line->in_use = max(line->in_use, entry->in_use);
}

/* The largest first; sums of many processes last. */
static int compare_lines(const struct line *one, const struct line *two)
{
	if (!one->key.pid != !two->key.pid)
		return one->key.pid ? -1 : 1;
	if (one->weight != two->weight)
		return one->weight < two->weight ? 1 : -1;
	return one->key.pid < two->key.pid ? -1 : one->key.pid > two->key.pid;
}

static void make_lines(struct answer *answer)
{
	double bytes = 1, in_use = 1;
	unsigned int i, j, index = 0;
	struct line *line;

	for (i = 0; i < answer->count; i++)
		for (j = 0; j < answer->points[i].count; j++)
			if (answer->kinds & 1u << answer->points[i].entries[j].kind)
				add_entry(answer, &answer->points[i].entries[j]);
	for (line = answer->lines; line; line = line->hh.next) {
		bytes += (double)line->bytes;
		in_use += (double)line->in_use;
	}
	for (line = answer->lines; line; line = line->hh.next)
		line->weight = max((double)line->bytes / bytes, (double)line->in_use / in_use);
	HASH_SORT(answer->lines, compare_lines);
	/* All beyond the limit, and all sums, are one line: the last. */
	for (line = answer->lines; line; line = line->hh.next)
		line->index = line->key.pid && index < LINES ? index++ : LINES;
}

static json_t *line_json(const struct line *line)
{
	/* clang-format off */
	return json_pack("{sI sI ss so so}",
		"pid", (json_int_t)line->key.pid,
		"uid", (json_int_t)line->key.uid,
		"comm", line->key.comm,
		"rate", json_array(),
		"in_use", json_array());
	/* clang-format on */
}

static void put_number(json_t *line, const char *key, double value)
{
	json_array_append_new(json_object_get(line, key), json_integer((json_int_t)value));
}

/* One number for each line, and 0 for those without an entry. */
static void put_point(json_t *lines, unsigned int nr, const struct answer *answer,
		      const struct timeline_point *point)
{
	double bytes[LINES + 1] = { 0 }, in_use[LINES + 1] = { 0 };
	double seconds = (double)max(point->duration_ns, 1) / 1e9;
	const struct timeline_entry *entry;
	struct timeline_entry key;
	struct line *line;
	unsigned int i;

	for (i = 0; i < point->count; i++) {
		entry = &point->entries[i];
		key = key_of(entry);
		HASH_FIND(hh, answer->lines, &key, KEY_SIZE, line);
		if (!line)
			continue;
		bytes[line->index] += (double)entry->bytes;
		in_use[line->index] += (double)entry->in_use;
	}
	for (i = 0; i < nr; i++) {
		put_number(json_array_get(lines, i), "rate", bytes[i] / seconds);
		put_number(json_array_get(lines, i), "in_use", in_use[i]);
	}
	put_number(json_array_get(lines, nr), "rate", bytes[LINES] / seconds);
	put_number(json_array_get(lines, nr), "in_use", in_use[LINES]);
}

/* The last line is the sum of all other processes. */
static json_t *lines_json(const struct answer *answer)
{
	static const struct line others;
	json_t *lines = json_array();
	const struct line *line;
	unsigned int nr, i;

	for (line = answer->lines; line && line->index < LINES; line = line->hh.next)
		json_array_append_new(lines, line_json(line));
	nr = (unsigned int)json_array_size(lines);
	json_array_append_new(lines, line_json(&others));
	for (i = 0; i < answer->count; i++)
		put_point(lines, nr, answer, &answer->points[i]);
	return lines;
}

static json_t *times_json(const struct answer *answer, bool ends)
{
	json_t *times = json_array();
	uint64_t time_ns;
	unsigned int i;

	for (i = 0; i < answer->count; i++) {
		time_ns = answer->points[i].start_ns + (ends ? answer->points[i].duration_ns : 0);
		json_array_append_new(times, json_real((double)time_ns / 1e9));
	}
	return times;
}

/* Adds a copy of the points in memory that begin in the span. */
static void add_memory(struct state *state, const struct history_span *span, struct answer *answer)
{
	struct timeline_point *points;
	unsigned int count, i;
	int64_t start;

	pthread_mutex_lock(&state->lock);
	points = timeline_copy(state->timeline, &count);
	pthread_mutex_unlock(&state->lock);
	answer->points = xcalloc(FILES_MAX + count, sizeof(*points));
	for (i = 0; i < count; i++) {
		start = (int64_t)(points[i].start_ns / SECOND_NS);
		if (start >= span->since && start < span->until)
			answer->points[answer->count++] = points[i];
		else
			free(points[i].entries);
	}
	free(points);
}

/* Adds files of the time before the points in memory. */
static void add_history(struct request *request, const struct history_span *span,
			const struct filter *filter, struct answer *answer)
{
	const struct history_limits limits = { .seconds = READ_SECONDS,
					       .stop_fd = request->state->stop_fd };
	struct history_points *found = &answer->history;
	struct history_span before = *span;

	if (!request->history)
		return;
	if (answer->count)
		before.until = min(span->until, (int64_t)(answer->points[0].start_ns / SECOND_NS));
	if (!history_points_read(history_directory(request->history), &before, filter, &limits,
				 FILES_MAX, found))
		return;
	memmove(answer->points + found->count, answer->points,
		answer->count * sizeof(*answer->points));
	memcpy(answer->points, found->points, found->count * sizeof(*found->points));
	answer->count += found->count;
	free(found->points);
}

static json_t *answer_json(const struct request *request, const struct history_span *span,
			   const struct answer *answer)
{
	struct history_counts counts = { 0 };
	char kind[32];

	if (request->history)
		history_counts(request->history, &counts);
	kinds_text(answer->kinds, kind, sizeof(kind));
	/* clang-format off */
	return json_pack("{sI sI ss sI sI sI sI so so so}",
		"since", (json_int_t)span->since,
		"until", (json_int_t)span->until,
		"event", kind,
		"history_seconds", request->history ?
			(json_int_t)history_seconds(request->history) : 0,
		"history_oldest", counts.oldest,
		"files", (json_int_t)answer->history.files,
		"files_read", (json_int_t)answer->history.count + answer->history.unread,
		"starts", times_json(answer, false),
		"ends", times_json(answer, true),
		"processes", lines_json(answer));
	/* clang-format on */
}

static void reply_timeline(struct request *request, struct reply *reply,
			   const struct history_span *span, const struct filter *filter)
{
	struct answer answer = { 0 };
	uint32_t kinds = 0;
	struct turn turn;
	unsigned int i;

	request_turn_take(request, &turn);
	if (response_memory_is_full(request->user)) {
		reply_error(reply, 503, RESPONSE_MEMORY_FULL);
		request_turn_give(request, &turn);
		return;
	}
	add_memory(request->state, span, &answer);
	add_history(request, span, filter, &answer);
	for (i = 0; i < answer.count; i++)
		kinds |= select_entries(filter, &answer.points[i]);
	answer.kinds = kinds_first(filter_kinds(filter, kinds));
	make_lines(&answer);
	reply_json(reply, answer_json(request, span, &answer), true);
	HASH_FREE(answer.lines);
	timeline_points_free(answer.points, answer.count);
	request_turn_give(request, &turn);
}

void http_timeline(struct request *request, struct reply *reply)
{
	int64_t now = (int64_t)time(NULL);
	struct history_span span;
	struct filter filter;

	if (!request_time(request, reply, "since", now - 3600, &span.since) ||
	    !request_time(request, reply, "until", history_until_now(now), &span.until) ||
	    !request_filter(request, reply, &filter))
		return;
	if (span.since >= span.until)
		reply_error(reply, 400, "since and until: the span must begin before it ends.");
	else
		reply_timeline(request, reply, &span, &filter);
	filter_end(&filter);
}
