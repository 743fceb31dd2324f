// SPDX-License-Identifier: GPL-2.0-only
/*
 * Reads a span of a history: a merge of its files.
 *
 * The hard case is a directory in use: habd removes files between the listing and the reading, and
 * a damaged disk cuts files off. A file that is away is left out, one that is damaged is counted,
 * and the others are read.
 */
#include "daemon/history/history_reader.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/history/history_files.h"
#include "daemon/history/history_time.h"
#include "daemon/profile/merge.h"
#include "daemon/profile/profile_read.h"

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

/* The newest first: it has what is in use at the end. False: there are more than @most stacks. */
static bool add_span(const char *directory, const struct history_list *list,
		     const struct history_span *span, const struct filter *filter,
		     unsigned int most, struct merge *merge, struct history_found *found)
{
	const struct history_file *file;
	unsigned int i;

	for (i = list->count; i; i--) {
		file = &list->files[i - 1];
		if (file->start >= span->until || history_file_end(file) <= span->since)
			continue;
		add_file(directory, file, filter, merge, found);
		if (merge_stacks(merge) > most) {
			snprintf(
				found->why, sizeof(found->why),
				"The span has more than %u stacks: give a shorter one, or a filter, "
				"or let habctl read it",
				most);
			return false;
		}
	}
	if (!found->files && !found->unread)
		explain_nothing(directory, span, list, found);
	return found->files;
}

struct profile *history_read(const char *directory, const struct history_span *span,
			     const struct filter *filter, unsigned int most,
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
		good = add_span(directory, &list, span, &all_kinds, most, merge, found);
	if (fd >= 0)
		close(fd);
	history_list_end(&list);
	profile = merge_end(merge);
	if (!good) {
		profile_free(profile);
		return NULL;
	}
	filter_keep_kinds(filter, profile);
	return profile;
}
