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
#include "daemon/symbols/perf_map.h"

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

/* The process's number in its own PID namespace, which is the last of the line. */
static uint32_t own_number(uint32_t pid)
{
	char path[32], line[256], *last;
	uint32_t number = pid;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%u/status", pid);
	file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file)) {
		last = strrchr(line, '\t');
		if (!strncmp(line, "NSpid:", 6) && last)
			number = (uint32_t)strtoul(last, NULL, 10);
	}
	if (file)
		fclose(file);
	return number;
}

int maps_open_perf_map(uint32_t pid, struct stat *status, char *name, size_t size)
{
	uint32_t number = own_number(pid);
	struct stat process;
	char path[64];

	snprintf(name, size, "/tmp/perf-%u.map", number);
	snprintf(path, sizeof(path), "/proc/%u", pid);
	/* Of a process that has ended, which was this process's child. */
	if (stat(path, &process)) {
		process.st_uid = getuid();
		snprintf(path, sizeof(path), "%s", name);
	} else {
		snprintf(path, sizeof(path), "/proc/%u/root%s", pid, name);
	}
	return perf_map_open(path, process.st_uid, status);
}

/* Its time of change is left out: it grows, and stays the same file. */
void maps_describe_perf_map(const struct stat *status, struct binary_file *file)
{
	file->device = status->st_dev;
	file->inode = status->st_ino;
	file->owner = status->st_uid;
}

/* A map that does not exist yet may be written later: binaries_open_perf_maps(). */
static void add_perf_map(uint32_t pid, struct maps_entry *entry)
{
	char path[64];
	struct stat status;

	entry->file.fd = maps_open_perf_map(pid, &status, path, sizeof(path));
	if (entry->file.fd >= 0)
		maps_describe_perf_map(&status, &entry->file);
	entry->offset = entry->start;
	entry->name = xstrdup(path);
}

static void add_line(uint32_t pid, struct maps *maps, const struct maps_line *line,
		     bool *has_program)
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
	if (!strcmp(name, "[jit]"))
		add_perf_map(pid, entry);
	else
		entry->name = xstrdup(name);
}

void maps_parse(uint32_t pid, char *text, struct maps *maps)
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
			add_line(pid, maps, &line, &has_program);
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
