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

#include "core/channel/channel.h"
#include "daemon/shared/util.h"
#include "daemon/symbols/build_id.h"
#include "daemon/symbols/perf_map.h"

#define CHANNEL_PATH	"/memfd:" HAB_CHANNEL_FILE
#define EARLIER_SECONDS 10 /* a process may have run, and ended, before it was seen */

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
	if (stat(path, &process))
		return -1;
	snprintf(path, sizeof(path), "/proc/%u/root%s", pid, name);
	return perf_map_open(path, process.st_uid, status);
}

int maps_open_late_perf_map(uint32_t pid, uid_t user, uint64_t since_ns, struct stat *status,
			    char *name, size_t size)
{
	int fd;

	snprintf(name, size, "/tmp/perf-%u.map", pid);
	fd = perf_map_open(name, user, status);
	if (fd < 0 || (uint64_t)status->st_mtim.tv_sec + EARLIER_SECONDS >= since_ns / 1000000000)
		return fd;
	close(fd);
	return -1;
}

/* Its time of change is left out: it grows, and stays the same file. */
void maps_describe_perf_map(const struct stat *status, struct binary_file *file)
{
	file->device = status->st_dev;
	file->inode = status->st_ino;
	file->owner = status->st_uid;
}

/* False if the process has no memory. */
static bool find_channel(uint32_t pid, bool *found)
{
	bool has_memory = false;
	char path[32], *text = NULL;
	struct maps_line line;
	size_t room = 0;
	FILE *file;

	*found = false;
	snprintf(path, sizeof(path), "/proc/%u/maps", pid);
	file = fopen(path, "re");
	while (file && !*found && getline(&text, &room, file) > 0) {
		has_memory = true;
		*found = maps_line_parse(text, &line) &&
			 !strncmp(line.path, CHANNEL_PATH, strlen(CHANNEL_PATH));
	}
	free(text);
	if (file)
		fclose(file);
	return has_memory;
}

bool maps_open_memory(uint32_t pid, int *fd)
{
	bool has_memory, has_channel;
	char path[32];

	snprintf(path, sizeof(path), "/proc/%u/pagemap", pid);
	/* First: so it is not of a later program. */
	*fd = open(path, O_RDONLY | O_CLOEXEC);
	if (*fd < 0)
		return false;
	has_memory = find_channel(pid, &has_channel);
	if (!has_channel) {
		close(*fd);
		*fd = -1;
	}
	return has_memory;
}

bool maps_has_memory(int fd)
{
	char byte;

	/* One byte is an error, or the end of the file if the memory is gone. */
	return pread(fd, &byte, 1, 0) < 0;
}

static struct maps_entry *add_entry(struct maps *maps, enum maps_kind kind)
{
	struct maps_entry *entry;

	maps->entries = xgrow(maps->entries, maps->nr, &maps->room, sizeof(*maps->entries));
	entry = &maps->entries[maps->nr++];
	*entry = (struct maps_entry){ .kind = kind, .file.fd = -1 };
	return entry;
}

static void add_memory(struct maps *maps, uint32_t pid)
{
	int fd;

	if (maps_open_memory(pid, &fd))
		add_entry(maps, MAPS_MEMORY)->file.fd = fd;
}

void maps_add_late_perf_map(struct maps *maps, uint32_t pid, uid_t user, uint64_t since_ns)
{
	struct maps_entry *entry;
	struct stat status;
	char name[64];
	int fd = maps_open_late_perf_map(pid, user, since_ns, &status, name, sizeof(name));

	if (fd < 0)
		return;
	entry = add_entry(maps, MAPS_PERF_MAP);
	maps_describe_perf_map(&status, &entry->file);
	entry->file.fd = fd;
	entry->name = xstrdup(name);
}

static void add_line(uint32_t pid, struct maps *maps, const struct maps_line *line,
		     bool *has_program)
{
	struct maps_entry *entry = add_entry(maps, MAPS_MAPPING);
	struct stat status;
	const char *name;
	char perf_map[64];

	entry->start = line->start;
	entry->end = line->end;
	entry->offset = line->inode ? line->offset : 0;
	if (maps_line_has_file(line, &name)) {
		entry->file.fd = maps_open(line->path, line->inode);
		if (entry->file.fd >= 0 && !fstat(entry->file.fd, &status))
			maps_describe(&entry->file.fd, &status, &entry->file, &name);
		/* The lowest: libraries are mapped above the program. */
		entry->file.executable = !*has_program && entry->file.fd >= 0;
		*has_program = true;
	}
	if (!strcmp(name, "[jit]")) {
		entry->offset = line->start;
		entry->file.fd = maps_open_perf_map(pid, &status, perf_map, sizeof(perf_map));
		if (entry->file.fd >= 0) {
			maps_describe_perf_map(&status, &entry->file);
			name = perf_map;
		}
	}
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
	add_memory(maps, pid);
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
