// SPDX-License-Identifier: GPL-2.0-only
/*
 * Reads files of the history as points of the timeline.
 *
 * The reading ends in time, also of a week, which has ten thousand files: to read all takes
 * minutes. A number of them is read, at even distances, from the newest on until the time is over.
 * What is in use is then exact at these times, and the bytes a second are those of their minutes.
 */
#include "daemon/habd/history/points.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/habd/history/files.h"
#include "daemon/profile/formats/read.h"

#define SECOND_NS 1000000000ull

/* Keeps the files that start before a time. */
static void keep_before(struct history_list *list, int64_t before)
{
	unsigned int i, kept = 0;

	for (i = 0; i < list->count; i++)
		if (list->files[i].start < before)
			list->files[kept++] = list->files[i];
	list->count = kept;
}

static bool add_file(const char *directory, const struct history_file *file,
		     const struct filter *filter, struct timeline_point *point)
{
	const struct profile_sample *sample;
	char name[HISTORY_NAME_SIZE], why[400], *path;
	struct timeline_copy copy = { .start_ns = (uint64_t)file->start * SECOND_NS,
				      .duration_ns = file->seconds * SECOND_NS };
	struct profile *profile;
	bool has_errors;
	unsigned int i;

	history_name(file, name);
	path = xformat("%s/%s", directory, name);
	profile = profile_read_file(path, filter, &has_errors, why, sizeof(why));
	free(path);
	if (!profile)
		return false;
	for (i = 0; i < profile->nr_samples; i++) {
		sample = &profile->samples[i];
		timeline_copy_add(&copy, &sample->key, sample->counts.estimate,
				  sample->in_use.bytes);
	}
	*point = timeline_sum_up(&copy);
	profile_free(profile);
	return true;
}

static bool must_end(const struct history_limits *limits, uint64_t began_ns)
{
	return clock_monotonic_ns() - began_ns > limits->seconds * SECOND_NS ||
	       history_must_end(limits);
}

static void read_files(const char *directory, const struct history_list *list,
		       const struct filter *filter, const struct history_limits *limits,
		       unsigned int most, struct history_points *points)
{
	uint64_t began_ns = clock_monotonic_ns();
	unsigned int i, count = min(list->count, most), index;

	points->points = xcalloc(count, sizeof(*points->points));
	for (i = count; i && !must_end(limits, began_ns); i--) {
		index = (unsigned int)((uint64_t)i * list->count / count - 1);
		if (add_file(directory, &list->files[index], filter,
			     &points->points[points->count]))
			points->count++;
		else
			points->unread++;
	}
}

bool history_points_read(const char *directory, const struct history_span *span, int64_t before,
			 const struct filter *filter, const struct history_limits *limits,
			 unsigned int most, struct history_points *points)
{
	struct filter all_kinds = *filter;
	int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct history_list list = { 0 };
	bool good = fd >= 0 && !history_list(fd, &list);

	memset(points, 0, sizeof(*points));
	all_kinds.each_kind = true;
	if (good) {
		history_list_keep(&list, span);
		keep_before(&list, before);
		points->files = list.count;
		read_files(directory, &list, &all_kinds, limits, most, points);
	}
	if (fd >= 0)
		close(fd);
	history_list_end(&list);
	return good;
}
