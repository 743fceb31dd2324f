// SPDX-License-Identifier: GPL-2.0-only
#include "daemon/habd/history/end_files.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "daemon/shared/util.h"

#define OF_OWNER_MAX 20u /* for want of memory, and as many by a signal */
#define OF_ALL_MAX   1000u

void end_file_name(const struct end_file *file, char name[END_NAME_SIZE])
{
	time_t when = (time_t)file->time;
	char text[32] = "", comm[sizeof(file->comm)] = "";
	struct tm parts;
	unsigned int i;

	if (gmtime_r(&when, &parts))
		strftime(text, sizeof(text), "%Y%m%dT%H%M%SZ", &parts);
	for (i = 0; i + 1 < sizeof(comm) && file->comm[i]; i++)
		comm[i] = strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_",
				 file->comm[i]) ?
				  file->comm[i] :
				  '_';
	snprintf(name, END_NAME_SIZE, "end-%s-%s-%u-%u-%" PRIu64 "-%" PRIu64 "-%s.pb.gz", text,
		 file->why, file->owner, file->pid, file->peak, file->limit, comm);
}

bool end_file_parse(const char *name, struct end_file *file)
{
	char again[END_NAME_SIZE];
	struct tm parts = { 0 };

	memset(file, 0, sizeof(*file));
	if (sscanf(name, "end-%4d%2d%2dT%2d%2d%2dZ-%11[A-Za-z0-9]-%10u-%10u-%20" SCNu64 "-%20" SCNu64
		   "-%15[^.]",
		   &parts.tm_year, &parts.tm_mon, &parts.tm_mday, &parts.tm_hour, &parts.tm_min,
		   &parts.tm_sec, file->why, &file->owner, &file->pid, &file->peak, &file->limit,
		   file->comm) != 12)
		return false;
	parts.tm_year -= 1900;
	parts.tm_mon--;
	file->time = timegm(&parts);
	end_file_name(file, again);
	return !strcmp(name, again);
}

static int compare(const void *one, const void *two)
{
	const struct end_file *first = one, *second = two;

	if (first->time != second->time)
		return first->time < second->time ? -1 : 1;
	return first->pid < second->pid ? -1 : first->pid > second->pid;
}

int end_files_list(int directory, struct end_files *list)
{
	int copy = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *stream = copy < 0 ? NULL : fdopendir(copy);
	const struct dirent *entry;
	struct end_file file;

	memset(list, 0, sizeof(*list));
	if (!stream) {
		if (copy >= 0)
			close(copy);
		return -1;
	}
	while ((entry = readdir(stream))) {
		if (!end_file_parse(entry->d_name, &file))
			continue;
		list->files = xgrow(list->files, list->count, &list->room, sizeof(*list->files));
		list->files[list->count++] = file;
	}
	closedir(stream);
	if (list->count)
		qsort(list->files, list->count, sizeof(*list->files), compare);
	return 0;
}

void end_files_end(struct end_files *list)
{
	free(list->files);
}

static bool are_alike(const struct end_file *one, const struct end_file *two)
{
	return one->owner == two->owner && !strcmp(one->why, END_OOM) == !strcmp(two->why, END_OOM);
}

void end_files_limit(int directory, const struct end_file *last)
{
	unsigned int alike = 0, left, i;
	char name[END_NAME_SIZE];
	struct end_files list;

	if (end_files_list(directory, &list))
		return;
	for (i = 0; i < list.count; i++)
		alike += are_alike(&list.files[i], last);
	left = list.count;
	for (i = 0; i < list.count; i++) {
		if (!(alike > OF_OWNER_MAX && are_alike(&list.files[i], last)) && left <= OF_ALL_MAX)
			continue;
		end_file_name(&list.files[i], name);
		unlinkat(directory, name, 0);
		left--;
		alike -= are_alike(&list.files[i], last);
	}
	end_files_end(&list);
}
