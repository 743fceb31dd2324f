// SPDX-License-Identifier: GPL-2.0-only
#include "daemon/habctl/end_list.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "daemon/habd/history/end_files.h"
#include "daemon/habd/history/files.h"
#include "daemon/habd/history/time.h"
#include "daemon/shared/util.h"

static void show(const char *path, const struct end_file *file)
{
	char name[END_NAME_SIZE], time[32], peak[32], limit[32] = "none";

	history_time_print(file->time, time, sizeof(time));
	human_bytes(file->peak, peak, sizeof(peak));
	if (file->limit)
		human_bytes(file->limit, limit, sizeof(limit));
	end_file_name(file, name);
	printf("%-19s %-5s %8u %-15s %10u %10s %10s  %s/%s\n", time, file->why, file->pid,
	       file->comm, file->owner, peak, limit, path, name);
}

int end_list_show(const char *path, bool oom, bool crashed)
{
	struct end_files list = { 0 };
	unsigned int i, nr = 0;
	int directory;

	path = path ? path : HISTORY_DIRECTORY;
	directory = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (directory < 0 || end_files_list(directory, &list)) {
		if (errno == EACCES)
			say("%s: you may not read it: root and members of group hab-read may", path);
		else
			say("%s: %s: habd --history DIR keeps such profiles; --history names another "
			    "directory",
			    path, strerror(errno));
		if (directory >= 0)
			close(directory);
		return EXIT_FAILED;
	}
	for (i = 0; i < list.count; i++) {
		if (strcmp(list.files[i].why, END_OOM) ? !crashed : !oom)
			continue;
		if (!nr++)
			printf("%-19s %-5s %8s %-15s %10s %10s %10s  %s\n", "TIME", "WHY", "PID",
			       "COMMAND", "OWNER", "PEAK RSS", "LIMIT", "FILE, FOR habctl report");
		show(path, &list.files[i]);
	}
	if (!nr)
		say("%s has no such profile", path);
	end_files_end(&list);
	close(directory);
	return 0;
}
