// SPDX-License-Identifier: GPL-2.0-only
/*
 * Reads a span of a history: a merge of its files.
 *
 * All files that can be read are in the result, also of a directory in use: habd removes files
 * between the listing and the reading, and a damaged disk cuts files off. A file that is away is
 * left out, and one that is damaged is counted.
 */
#include "daemon/habd/history/reader.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/habd/history/files.h"
#include "daemon/habd/history/time.h"
#include "daemon/profile/merge.h"
#include "daemon/profile/formats/read.h"

static void explain_directory(const char *directory, struct history_found *found)
{
	found->unreadable = true;
	if (errno == EACCES)
		snprintf(found->why, sizeof(found->why),
			 "%.200s: you may not read it: root and members of group hab-read may",
			 directory);
	else
		snprintf(found->why, sizeof(found->why),
			 "%.200s: %s: habd keeps a history if it is started with --history DIR; "
			 "name another directory with --history",
			 directory, strerror(errno));
}

static void explain_nothing(const char *directory, const struct history_span *span,
			    const struct history_list *list, struct history_found *found)
{
	char since[32], until[32], first[32], last[32];

	history_time_print(span->since, since, sizeof(since));
	history_time_print(span->until, until, sizeof(until));
	if (!list->count) {
		snprintf(found->why, sizeof(found->why),
			 "%.200s: there are no profiles yet: habd writes one a minute", directory);
		return;
	}
	history_time_print(list->files[0].start, first, sizeof(first));
	history_time_print(history_file_end(&list->files[list->count - 1]), last, sizeof(last));
	snprintf(
		found->why, sizeof(found->why),
		"%.200s: there is no profile of %s to %s; those that are there begin at %s and end "
		"at %s",
		directory, since, until, first, last);
}

static void add_file(const char *directory, const struct history_file *file,
		     const struct filter *filter, struct merge *merge, struct history_found *found)
{
	char name[HISTORY_NAME_SIZE], why[400], *path;
	struct profile *profile;
	bool has_errors, exists;

	history_name(file, name);
	path = xformat("%s/%s", directory, name);
	profile = profile_read_file(path, filter, &has_errors, why, sizeof(why));
	exists = profile || !access(path, F_OK);
	free(path);
	if (!profile && exists && !found->unread++) {
		snprintf(found->first_unread, sizeof(found->first_unread), "%s", name);
		snprintf(found->why, sizeof(found->why), "%s", why);
	}
	if (!profile)
		return;
	merge_add(merge, profile, !found->files);
	profile_free(profile);
	if (!found->files || file->start < found->start)
		found->start = file->start;
	if (!found->files || history_file_end(file) > found->end)
		found->end = history_file_end(file);
	found->has_errors &= has_errors;
	found->files++;
}

bool history_must_end(const struct history_limits *limits)
{
	struct pollfd events[2] = {
		{ .fd = limits->stop_fd, .events = POLLIN },
		{ .fd = limits->client_fd, .events = POLLRDHUP },
	};

	return poll(events, ARRAY_SIZE(events), 0) > 0;
}

/* False, with @found->why. */
static bool within(const struct history_limits *limits, uint64_t began_ns,
		   const struct merge *merge, struct history_found *found)
{
	const char *what = NULL;

	if (merge_stacks(merge) > limits->stacks || merge_frames(merge) > limits->frames)
		what = "has too many stacks";
	else if (clock_monotonic_ns() - began_ns > limits->seconds * 1000000000ull)
		what = "takes too long to read";
	else if (history_must_end(limits))
		what = "is not read to its end, because habd or the client ends";
	if (what)
		snprintf(found->why, sizeof(found->why),
			 "The span %s (at most %u stacks, %u frames, %u s): give a shorter one, or "
			 "a filter, or let habctl read it",
			 what, limits->stacks, limits->frames, limits->seconds);
	return !what;
}

/* The newest first: it has what is in use at the end. False: nothing, or at one of the limits. */
static bool add_span(const char *directory, const struct history_list *list,
		     const struct filter *filter, const struct history_limits *limits,
		     struct merge *merge, struct history_found *found)
{
	uint64_t began_ns = clock_monotonic_ns();
	unsigned int i;

	for (i = list->count; i; i--) {
		add_file(directory, &list->files[i - 1], filter, merge, found);
		if (limits && !within(limits, began_ns, merge, found))
			return false;
	}
	return found->files;
}

/* Adds the files of the directory that belong to the span. False as above. */
static bool add_list(const char *directory, struct history_list *list,
		     const struct history_span *span, const struct filter *filter,
		     const struct history_limits *limits, struct merge *merge,
		     struct history_found *found)
{
	struct history_found nothing = { 0 };
	bool good;

	explain_nothing(directory, span, list, &nothing);
	history_list_keep(list, span);
	good = add_span(directory, list, filter, limits, merge, found);
	if (!good && !*found->why)
		memcpy(found->why, nothing.why, sizeof(found->why));
	return good;
}

struct profile *history_read(const char *directory, const struct history_span *span,
			     const struct filter *filter, const struct history_limits *limits,
			     struct history_found *found)
{
	struct filter all_kinds = *filter;
	int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct merge *merge = merge_begin();
	struct history_list list = { 0 };
	struct profile *profile;
	bool good = false;

	memset(found, 0, sizeof(*found));
	found->has_errors = true;
	/* The kinds of the span are known once all files have been read. */
	all_kinds.each_kind = true;
	if (fd < 0 || history_list(fd, &list))
		explain_directory(directory, found);
	else
		good = add_list(directory, &list, span, &all_kinds, limits, merge, found);
	if (fd >= 0)
		close(fd);
	history_list_end(&list);
	profile = merge_end(merge);
	if (!good) {
		profile_free(profile);
		return NULL;
	}
	filter_keep(filter, profile);
	return profile;
}
