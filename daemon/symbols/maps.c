// SPDX-License-Identifier: GPL-2.0-only
/*
 * Lines of /proc/PID/maps and the files in them.
 *
 * The hard case is a text that is older than its process's end: by now its paths may lead to other
 * files. So a file counts only if it has the inode of the line.
 */
#include "daemon/symbols/maps.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/shared/util.h"
#include "daemon/symbols/build_id.h"

bool maps_line_parse(char *text, struct maps_line *line)
{
	char permissions[8];
	int path = 0;

	if (sscanf(text, "%" SCNx64 "-%" SCNx64 " %7s %" SCNx64 " %*s %" SCNu64 " %n", &line->start,
		   &line->end, permissions, &line->offset, &line->inode, &path) < 5 ||
	    !path)
		return false;
	line->executable = permissions[2] == 'x';
	text[strcspn(text, "\n")] = 0;
	line->path = text + path;
	return line->start < line->end;
}

bool maps_line_has_file(const struct maps_line *line, const char **name)
{
	*name = line->path;
	/* Any process can give names to its anonymous memory: "[anon:...]". */
	if (!strncmp(line->path, "[anon", 5))
		*name = "[anon]";
	if (!line->inode && line->path[0] != '[')
		*name = "[jit]";
	return line->inode && line->path[0] != '[';
}

int maps_open(const char *path, uint64_t inode)
{
	struct stat status;
	char link[64];
	int path_fd, fd = -1;

	path_fd = open(path, O_PATH | O_CLOEXEC);
	if (path_fd < 0)
		return -1;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", path_fd);
	/* Not blocking: the owner of the file may hold a lease on it. */
	if (!fstat(path_fd, &status) && S_ISREG(status.st_mode) && status.st_ino == inode)
		fd = open(link, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	close(path_fd);
	return fd;
}

void maps_describe(int *fd, const struct stat *status, struct binary_file *file, const char **name)
{
	int length = build_id_read(*fd, file->build_id);

	/* Code that a compiler made at run time may be in a file, too. */
	if (length < 0) {
		*name = "[jit]";
		close(*fd);
		*fd = -1;
		return;
	}
	file->build_id_length = (unsigned int)length;
	file->device = status->st_dev;
	file->inode = status->st_ino;
	file->changed = status->st_mtim;
	file->owner = status->st_uid;
}

static void add_line(struct maps *maps, const struct maps_line *line, bool *has_program)
{
	struct maps_entry *entry;
	struct stat status;
	const char *name;

	maps->entries = xgrow(maps->entries, maps->nr, &maps->room, sizeof(*maps->entries));
	entry = &maps->entries[maps->nr++];
	*entry = (struct maps_entry){ .start = line->start,
				      .end = line->end,
				      .offset = line->inode ? line->offset : 0,
				      .file.fd = -1 };
	if (maps_line_has_file(line, &name)) {
		entry->file.fd = maps_open(line->path, line->inode);
		if (entry->file.fd >= 0 && !fstat(entry->file.fd, &status))
			maps_describe(&entry->file.fd, &status, &entry->file, &name);
		/* The lowest: libraries are mapped above the program. */
		entry->file.executable = !*has_program && entry->file.fd >= 0;
		*has_program = true;
	}
	entry->name = xstrdup(name);
}

void maps_parse(char *text, struct maps *maps)
{
	bool has_program = false;
	struct maps_line line;
	char *next;

	memset(maps, 0, sizeof(*maps));
	for (; text && *text && maps->nr < MAPPINGS_MAX; text = next) {
		next = strchr(text, '\n');
		if (next)
			*next++ = 0;
		/* Ascending and apart: they are searched by halves. */
		if (maps_line_parse(text, &line) && line.executable &&
		    (!maps->nr || line.start >= maps->entries[maps->nr - 1].end))
			add_line(maps, &line, &has_program);
	}
}

void maps_end(struct maps *maps)
{
	unsigned int i;

	for (i = 0; i < maps->nr; i++) {
		if (maps->entries[i].file.fd >= 0)
			close(maps->entries[i].file.fd);
		free(maps->entries[i].name);
	}
	free(maps->entries);
	memset(maps, 0, sizeof(*maps));
}
