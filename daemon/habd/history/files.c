// SPDX-License-Identifier: GPL-2.0-only
#include "daemon/habd/history/files.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "daemon/shared/util.h"

#define BLOCK	  4096u
#define SECOND_NS 1000000000ll

uint64_t history_rounded(uint64_t size)
{
	return (size + BLOCK - 1) / BLOCK * BLOCK;
}

void history_name(const struct history_file *file, char name[HISTORY_NAME_SIZE])
{
	time_t start = (time_t)file->start;
	char text[32] = "";
	struct tm parts;

	if (gmtime_r(&start, &parts))
		strftime(text, sizeof(text), "%Y%m%dT%H%M%SZ", &parts);
	snprintf(name, HISTORY_NAME_SIZE, "%010" PRIu64 "-%s-%" PRIu64 "s.pb.gz", file->number,
		 text, file->seconds);
}

/* False: the file is not of the history. */
static bool parse_name(const char *name, struct history_file *file)
{
	char again[HISTORY_NAME_SIZE];
	struct tm parts = { 0 };

	if (sscanf(name, "%10" SCNu64 "-%4d%2d%2dT%2d%2d%2dZ-%9" SCNu64 "s.pb.gz", &file->number,
		   &parts.tm_year, &parts.tm_mon, &parts.tm_mday, &parts.tm_hour, &parts.tm_min,
		   &parts.tm_sec, &file->seconds) != 8)
		return false;
	parts.tm_year -= 1900;
	parts.tm_mon--;
	file->start = timegm(&parts);
	history_name(file, again);
	return !strcmp(name, again);
}

static int compare(const void *one, const void *two)
{
	const struct history_file *first = one, *second = two;

	return first->number < second->number ? -1 : first->number > second->number;
}

int history_list(int directory, struct history_list *list)
{
	int copy = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *stream = copy < 0 ? NULL : fdopendir(copy);
	struct history_file file;
	struct dirent *entry;
	struct stat status;

	memset(list, 0, sizeof(*list));
	if (!stream) {
		if (copy >= 0)
			close(copy);
		return -1;
	}
	while ((entry = readdir(stream))) {
		if (!parse_name(entry->d_name, &file) ||
		    fstatat(directory, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) ||
		    !S_ISREG(status.st_mode))
			continue;
		file.size = history_rounded((uint64_t)status.st_size);
		list->files = xgrow(list->files, list->count, &list->room, sizeof(*list->files));
		list->files[list->count++] = file;
	}
	closedir(stream);
	if (list->count)
		qsort(list->files, list->count, sizeof(*list->files), compare);
	return 0;
}

void history_list_end(struct history_list *list)
{
	free(list->files);
	memset(list, 0, sizeof(*list));
}

bool history_span_has(const struct history_span *span, uint64_t start_ns, uint64_t duration_ns)
{
	int64_t middle_ns = (int64_t)(start_ns + duration_ns / 2);

	return middle_ns >= span->since * SECOND_NS && middle_ns < span->until * SECOND_NS;
}

/* Seconds; at most 0 if no part of the file is in the span. */
static int64_t part_of(const struct history_span *span, const struct history_file *file)
{
	int64_t end = history_file_end(file);

	return (end < span->until ? end : span->until) -
	       (file->start > span->since ? file->start : span->since);
}

void history_list_keep(struct history_list *list, const struct history_span *span)
{
	struct history_file longest = { 0 };
	const struct history_file *file;
	unsigned int i, kept = 0;
	int64_t most = 0;

	for (i = 0; i < list->count; i++) {
		file = &list->files[i];
		if (part_of(span, file) > most) {
			most = part_of(span, file);
			longest = *file;
		}
		if (history_span_has(span, (uint64_t)(file->start * SECOND_NS),
				     file->seconds * SECOND_NS))
			list->files[kept++] = *file;
	}
	if (!kept && most)
		list->files[kept++] = longest;
	list->count = kept;
}
