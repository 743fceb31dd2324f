// SPDX-License-Identifier: GPL-2.0-only
/*
 * /v1/timeline, as JSON: bytes a second and bytes in use of the processes that have most of them,
 * from the history and from memory, and the sums of all others; and the processes that were ended.
 *
 * An owner has at most a quarter of the lines while processes of others remain, however large its
 * own are. Its others are one sum, and so is what remains beyond OWNER_LINES such sums.
 *
 * Bytes of two kinds of events are never summed up: an answer has one kind, the same at all times.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "wire/owner.h"
#include "daemon/habd/history/end_files.h"
#include "daemon/habd/history/points.h"
#include "daemon/habd/history/time.h"
#include "daemon/habd/history/writer.h"
#include "daemon/habd/http/handlers.h"
#include "daemon/habd/http/response.h"
#include "daemon/shared/hash.h"
#include "daemon/shared/kinds.h"

#define SECOND_NS    1000000000ull
#define FILES_MAX    360u
#define READ_SECONDS 10u
#define LINES	     20u /* processes in an answer */
#define OWNER_LINES  20u /* sums of an owner's other processes */

/* One process over time, or the sum of an owner's other processes. */
struct line {
	UT_hash_handle hh;
	uint64_t pid, owner, uid; /* its key; pid 0: a sum */
	char comm[HAB_COMM_LEN]; /* at its last point */
	double weight;		/* the larger of its shares of what is allocated and in use */
	uint64_t bytes, in_use; /* sum; maximum */
	bool chosen;		/* it is a line of the answer */
	unsigned int index;	/* of the answer's lines */
};

#define KEY_SIZE (3 * sizeof(uint64_t))

struct answer {
	struct timeline_point *points; /* sorted by start */
	unsigned int count;
	struct history_points history;
	uint32_t kinds;	      /* one of them, a bit */
	uint32_t other_kinds; /* that are left out */
	struct line *lines;   /* a hash table; those that are chosen first, and the largest first */
	unsigned int nr_lines; /* of processes; then come sums */
};

static bool is_selected(const struct filter *filter, const struct timeline_entry *entry)
{
	struct stack_key key = { .pid = entry->pid, .uid = entry->uid };

	/* The sum of a container's users is none's. */
	if (!entry->pid && hab_owner_is_namespace(entry->owner) && filter->of[FILTER_UID].count)
		return false;
	memcpy(key.comm, entry->comm, sizeof(key.comm));
	return filter_matches(filter, &key);
}

/* A copy, without what the client has not asked for. */
static struct timeline_point copy_selected(const struct filter *filter,
					   const struct timeline_point *from)
{
	struct timeline_point point = *from;
	unsigned int i;

	point.entries = xcalloc(from->count, sizeof(*point.entries));
	point.count = 0;
	for (i = 0; i < from->count; i++)
		if (is_selected(filter, &from->entries[i]))
			point.entries[point.count++] = from->entries[i];
	return point;
}

/* Drops the entries of all kinds but one. */
static void keep_kinds(const struct filter *filter, struct answer *answer)
{
	struct timeline_point *point;
	unsigned int i, j, kept;
	uint32_t kinds = 0;

	for (i = 0; i < answer->count; i++)
		for (j = 0; j < answer->points[i].count; j++)
			kinds |= 1u << answer->points[i].entries[j].kind;
	answer->kinds = kinds_first(filter_kinds(filter, kinds));
	answer->other_kinds = kinds & ~answer->kinds;
	for (i = 0; i < answer->count; i++) {
		point = &answer->points[i];
		for (j = 0, kept = 0; j < point->count; j++)
			if (answer->kinds & 1u << point->entries[j].kind)
				point->entries[kept++] = point->entries[j];
		point->count = kept;
	}
}

static struct line *find_line(struct answer *answer, uint32_t pid, uint64_t owner, uint32_t uid)
{
	const uint64_t key[] = { pid, owner, uid };
	struct line *line;

	HASH_FIND(hh, answer->lines, key, KEY_SIZE, line);
	if (!line) {
		line = xcalloc(1, sizeof(*line));
		line->pid = pid;
		line->owner = owner;
		line->uid = uid;
		HASH_ADD(hh, answer->lines, pid, KEY_SIZE, line);
	}
	return line;
}

/* A process that changes its user has a line of each: each can be filtered by its uid. */
static struct line *line_of(struct answer *answer, const struct timeline_entry *entry)
{
	return find_line(answer, entry->pid, entry->owner,
			 entry->pid ? entry->uid : hab_owner_uid(entry->owner, 0));
}

/* The sum for the processes of the line's owner that have no lines. */
static struct line *sum_of(struct answer *answer, const struct line *line)
{
	return find_line(answer, 0, line->owner, hab_owner_uid(line->owner, 0));
}

static void add_entry(struct answer *answer, const struct timeline_entry *entry)
{
	struct line *line = line_of(answer, entry);

	memcpy(line->comm, entry->comm, sizeof(line->comm));
	line->bytes = hab_add_saturated(line->bytes, entry->bytes);
	line->in_use = max(line->in_use, entry->in_use);
}

/* Those that are chosen first, and the largest first. */
static int compare_lines(const struct line *one, const struct line *two)
{
	if (one->chosen != two->chosen)
		return one->chosen ? -1 : 1;
	if (one->weight != two->weight)
		return one->weight < two->weight ? 1 : -1;
	if (one->pid != two->pid)
		return one->pid < two->pid ? -1 : 1;
	return one->owner < two->owner ? -1 : one->owner > two->owner;
}

static bool owner_of(const void *rows, unsigned int row, uint64_t *owner)
{
	const struct line *const *lines = rows;

	*owner = lines[row]->owner;
	return lines[row]->pid;
}

static void choose(struct answer *answer)
{
	struct line **lines = xcalloc(HASH_COUNT(answer->lines), sizeof(*lines)), *line;
	unsigned int rows[LINES], nr = 0, i;

	for (line = answer->lines; line; line = line->hh.next)
		lines[nr++] = line;
	answer->nr_lines = choose_rows(lines, nr, owner_of, LINES, rows);
	for (i = 0; i < answer->nr_lines; i++)
		lines[rows[i]]->chosen = true;
	free(lines);
}

/* Processes, the sums of owners, and the sum of all that has no line yet. */
static void number_lines(struct answer *answer)
{
	unsigned int index = 0;
	struct line *line;

	for (line = answer->lines; line; line = line->hh.next)
		if (line->pid && !line->chosen)
			sum_of(answer, line)->weight += line->weight;
	HASH_SORT(answer->lines, compare_lines);
	for (line = answer->lines; line; line = line->hh.next) {
		line->chosen |= !line->pid && line->owner != TIMELINE_MANY && line->weight > 0 &&
				index < answer->nr_lines + OWNER_LINES;
		if (line->chosen)
			line->index = index++;
	}
	for (line = answer->lines; line; line = line->hh.next)
		if (!line->chosen)
			line->index = sum_of(answer, line)->chosen ? sum_of(answer, line)->index :
								     index;
}

static void make_lines(struct answer *answer)
{
	double bytes = 1, in_use = 1;
	unsigned int i, j;
	struct line *line;

	for (i = 0; i < answer->count; i++)
		for (j = 0; j < answer->points[i].count; j++)
			add_entry(answer, &answer->points[i].entries[j]);
	for (line = answer->lines; line; line = line->hh.next) {
		bytes += (double)line->bytes;
		in_use += (double)line->in_use;
	}
	for (line = answer->lines; line; line = line->hh.next)
		line->weight = max((double)line->bytes / bytes, (double)line->in_use / in_use);
	HASH_SORT(answer->lines, compare_lines);
	choose(answer);
	number_lines(answer);
}

static json_t *line_json(const struct line *line)
{
	char name[48] = "";

	if (line->pid)
		memcpy(name, line->comm, sizeof(line->comm));
	else if (hab_owner_is_namespace(line->owner))
		snprintf(name, sizeof(name), "others of a container");
	else if (line->chosen)
		snprintf(name, sizeof(name), "others of user %" PRIu64, line->owner);
	/* clang-format off */
	return json_pack("{sI sI sI ss so so}",
		"pid", (json_int_t)line->pid,
		"uid", (json_int_t)line->uid,
		"owner", (json_int_t)line->owner,
		"comm", name,
		"rate", json_array(),
		"in_use", json_array());
	/* clang-format on */
}

static void put_number(json_t *line, const char *key, double value)
{
	json_array_append_new(json_object_get(line, key), json_integer((json_int_t)value));
}

/* One number for each line, and 0 for those without an entry. */
static void put_point(json_t *lines, struct answer *answer, const struct timeline_point *point)
{
	double bytes[LINES + OWNER_LINES + 1] = { 0 }, in_use[LINES + OWNER_LINES + 1] = { 0 };
	double seconds = (double)max(point->duration_ns, 1) / 1e9;
	const struct line *line;
	unsigned int i;

	for (i = 0; i < point->count; i++) {
		line = line_of(answer, &point->entries[i]);
		bytes[line->index] += (double)point->entries[i].bytes;
		in_use[line->index] += (double)point->entries[i].in_use;
	}
	for (i = 0; i < json_array_size(lines); i++) {
		put_number(json_array_get(lines, i), "rate", bytes[i] / seconds);
		put_number(json_array_get(lines, i), "in_use", in_use[i]);
	}
}

/* What is resident now of the processes that still run. */
static void put_memory(struct state *state, json_t *lines)
{
	uint64_t now_ns = clock_monotonic_ns();
	struct rss_process is;
	json_t *line;
	size_t i;

	if (!state->rss)
		return;
	pthread_mutex_lock(&state->lock);
	json_array_foreach(lines, i, line)
		if (rss_find(state->rss,
			     (uint32_t)json_integer_value(json_object_get(line, "pid")),
			     (uint32_t)json_integer_value(json_object_get(line, "uid")), now_ns, &is))
			json_object_update_new(line, json_pack("{sI sI}", "anonymous_bytes",
							       (json_int_t)is.bytes, "shared_bytes",
							       (json_int_t)is.shared_bytes));
	pthread_mutex_unlock(&state->lock);
}

/* The last line is the sum of all that have no other. */
static json_t *lines_json(struct state *state, struct answer *answer)
{
	static const struct line others;
	json_t *lines = json_array();
	const struct line *line;
	unsigned int i;

	for (line = answer->lines; line; line = line->hh.next)
		if (line->chosen)
			json_array_append_new(lines, line_json(line));
	json_array_append_new(lines, line_json(&others));
	for (i = 0; i < answer->count; i++)
		put_point(lines, answer, &answer->points[i]);
	put_memory(state, lines);
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

/* The points of collectors: one for each step of the clock, with the entries of all. */
struct merging {
	const struct filter *filter;
	struct timeline_point *points; /* sorted by nothing */
	unsigned int count, room;
	uint64_t now_ns;
	bool has_files; /* of a history */
};

static struct timeline_point *point_at(struct merging *merging, uint64_t start_ns)
{
	struct timeline_point *point;
	unsigned int i;

	for (i = 0; i < merging->count; i++)
		if (merging->points[i].start_ns == start_ns)
			return &merging->points[i];
	merging->points =
		xgrow(merging->points, merging->count, &merging->room, sizeof(*merging->points));
	point = &merging->points[merging->count++];
	*point = (struct timeline_point){ .start_ns = start_ns, .duration_ns = TIMELINE_STEP_NS };
	return point;
}

/* @numbers as of http_part_timeline(). */
static void merge_point(struct merging *merging, uint64_t owner, uid_t uid, const uint64_t *numbers,
			const char *entries)
{
	/* One that begins late is of the step in which most of it lies. */
	uint64_t middle_ns = numbers[0] + min(numbers[1], TIMELINE_STEP_NS) / 2;
	struct timeline_point *point = point_at(merging, middle_ns - middle_ns % TIMELINE_STEP_NS);
	struct timeline_entry entry;
	uint64_t i;

	point->entries = xrealloc(point->entries, point->count + numbers[2], sizeof(entry));
	for (i = 0; i < numbers[2]; i++) {
		memcpy(&entry, entries + i * sizeof(entry), sizeof(entry));
		entry.owner = owner;
		entry.uid = part_claimed_uid(owner, uid, entry.uid);
		entry.kind = min(entry.kind, HAB_KINDS - 1);
		clean_copy(entry.comm, sizeof(entry.comm), entry.comm, sizeof(entry.comm));
		if (is_selected(merging->filter, &entry))
			point->entries[point->count++] = entry;
	}
}

/*
 * Files of the history are shown up to the first point in memory. So what a collector claims of a
 * time that none has in memory is left out: it would hide the files. After a clock was set forward
 * that can be a true point, too.
 */
static bool is_of_memory(const struct merging *merging, uint64_t start_ns)
{
	return !merging->has_files ||
	       start_ns + (FILES_MAX + 1) * TIMELINE_STEP_NS >= merging->now_ns;
}

static void merge_points(void *context, uint64_t owner, uid_t uid, const char *data, size_t length)
{
	struct merging *merging = context;
	unsigned int nr = 0;
	uint64_t numbers[3];

	while (length >= sizeof(numbers) && nr++ < FILES_MAX) {
		memcpy(numbers, data, sizeof(numbers));
		data += sizeof(numbers);
		length -= sizeof(numbers);
		if (numbers[2] > TIMELINE_ENTRIES ||
		    numbers[2] * sizeof(struct timeline_entry) > length || numbers[0] > INT64_MAX)
			return;
		if (is_of_memory(merging, numbers[0]))
			merge_point(merging, owner, uid, numbers, data);
		data += numbers[2] * sizeof(struct timeline_entry);
		length -= numbers[2] * sizeof(struct timeline_entry);
	}
}

static void add_copies(struct state *state, struct merging *merging)
{
	const struct timeline_point **points;
	unsigned int count, i;

	pthread_mutex_lock(&state->lock);
	points = timeline_take(state->timeline, &count);
	pthread_mutex_unlock(&state->lock);
	merging->points = xcalloc(count, sizeof(*merging->points));
	for (i = 0; i < count; i++)
		merging->points[merging->count++] = copy_selected(merging->filter, points[i]);
	timeline_put(points, count);
}

/* Adds the points in memory that belong to the span. Returns the start of the first. */
static int64_t add_memory(const struct request *request, const struct history_span *span,
			  const struct filter *filter, struct answer *answer)
{
	struct state *state = request->state;
	struct merging merging = { .filter = filter,
				   .now_ns = clock_realtime_ns(),
				   .has_files = request->history };
	uint64_t first_ns = UINT64_MAX;
	unsigned int i;

	if (state->snapshots)
		snapshots_ask(state->snapshots, "/part/timeline", merge_points, &merging);
	else
		add_copies(state, &merging);
	answer->points = xcalloc(FILES_MAX + merging.count, sizeof(*answer->points));
	for (i = 0; i < merging.count; i++) {
		first_ns = min(first_ns, merging.points[i].start_ns);
		if (history_span_has(span, merging.points[i].start_ns,
				     merging.points[i].duration_ns))
			answer->points[answer->count++] = merging.points[i];
		else
			free(merging.points[i].entries);
	}
	free(merging.points);
	return merging.count ? (int64_t)(first_ns / SECOND_NS) : INT64_MAX;
}

/* Adds the files that start before the points in memory. */
static void add_history(struct request *request, const struct history_span *span, int64_t before,
			const struct filter *filter, struct answer *answer)
{
	const struct history_limits limits = { .seconds = READ_SECONDS,
					       .stop_fd = request->state->stop_fd,
					       .client_fd = request_fd(request) };
	struct history_points *found = &answer->history;

	if (!request->history || !history_points_read(history_directory(request->history), span,
						      before, filter, &limits, FILES_MAX, found))
		return;
	memcpy(answer->points + answer->count, found->points,
	       found->count * sizeof(*found->points));
	answer->count += found->count;
	free(found->points);
}

static int compare_starts(const void *one, const void *two)
{
	const struct timeline_point *first = one, *second = two;

	return first->start_ns < second->start_ns ? -1 : first->start_ns > second->start_ns;
}

/*
 * Sorts the points, and drops those that start before the one before them ends: the last file and
 * the first points in memory overlap, and so do times before and after a clock is set back.
 */
static void sort_points(struct answer *answer)
{
	const struct timeline_point *last;
	unsigned int i, kept = 0;

	if (answer->count)
		qsort(answer->points, answer->count, sizeof(*answer->points), compare_starts);
	for (i = 0; i < answer->count; i++) {
		last = kept ? &answer->points[kept - 1] : NULL;
		/* Files have whole seconds. */
		if (last &&
		    answer->points[i].start_ns + SECOND_NS < last->start_ns + last->duration_ns)
			free(answer->points[i].entries);
		else
			answer->points[kept++] = answer->points[i];
	}
	answer->count = kept;
}

static json_t *end_json(const struct end_file *file)
{
	char name[END_NAME_SIZE];

	end_file_name(file, name);
	/* clang-format off */
	return json_pack("{sI ss sI sI ss sI sI ss}",
		"time", (json_int_t)file->time,
		"why", file->why,
		"pid", (json_int_t)file->pid,
		"owner", (json_int_t)file->owner,
		"comm", file->comm,
		"peak", (json_int_t)file->peak,
		"limit", (json_int_t)file->limit,
		"file", name);
	/* clang-format on */
}

/* The profiles of processes that were ended in the span. */
static json_t *ended_json(const struct request *request, const struct history_span *span,
			  const struct filter *filter)
{
	struct end_files list = { 0 };
	json_t *array = json_array();
	const struct end_file *file;
	struct timeline_entry entry;
	unsigned int i;
	int directory;

	if (!request->history)
		return array;
	directory = open(history_directory(request->history), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (directory < 0)
		return array;
	end_files_list(directory, &list);
	close(directory);
	for (i = 0; i < list.count; i++) {
		file = &list.files[i];
		entry = (struct timeline_entry){ .pid = file->pid, .uid = file->owner };
		memcpy(entry.comm, file->comm, sizeof(entry.comm));
		if (file->time >= span->since && file->time < span->until &&
		    is_selected(filter, &entry))
			json_array_append_new(array, end_json(file));
	}
	end_files_end(&list);
	return array;
}

static json_t *answer_json(const struct request *request, const struct history_span *span,
			   const struct filter *filter, struct answer *answer)
{
	struct history_counts counts = { 0 };
	char kind[32];

	if (request->history)
		history_counts(request->history, &counts);
	kinds_text(answer->kinds, kind, sizeof(kind));
	/* clang-format off */
	return json_pack("{sI sI ss so sI sI sI sI so so so so}",
		"since", (json_int_t)span->since,
		"until", (json_int_t)span->until,
		"event", kind,
		"other_events", reply_kinds(answer->other_kinds),
		"history_seconds", request->history ?
			(json_int_t)history_seconds(request->history) : 0,
		"history_oldest", counts.oldest,
		"files", (json_int_t)answer->history.files,
		"files_read", (json_int_t)answer->history.count + answer->history.unread,
		"starts", times_json(answer, false),
		"ends", times_json(answer, true),
		"processes", lines_json(request->state, answer),
		"ended", ended_json(request, span, filter));
	/* clang-format on */
}

static void reply_timeline(struct request *request, struct reply *reply,
			   const struct history_span *span, const struct filter *filter)
{
	struct answer answer = { 0 };
	int64_t first;

	state_turn_begin(request->state);
	if (!reply_take(reply, LIMITED_ANSWERS, 0)) {
		state_turn_end(request->state);
		return;
	}
	first = add_memory(request, span, filter, &answer);
	add_history(request, span, first, filter, &answer);
	sort_points(&answer);
	keep_kinds(filter, &answer);
	make_lines(&answer);
	reply_json(reply, answer_json(request, span, filter, &answer), true);
	HASH_FREE(answer.lines);
	timeline_points_free(answer.points, answer.count);
	state_turn_end(request->state);
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
