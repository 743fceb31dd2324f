// SPDX-License-Identifier: GPL-2.0-only
/*
 * Reads /proc/PID/maps, or what a process says is in there, and opens the mapped files.
 *
 * A text may name any file. Files are opened with this process's own rights, and those are no more
 * than the rights of the user whose processes it reads. A text may also be older than its process's
 * end: by now its paths may lead to other files. So a file counts only if it has the inode of the
 * line.
 */
#include "daemon/collect/maps_reader.h"

#include <ctype.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "wire/channel.h"
#include "daemon/shared/util.h"
#include "daemon/shared/elf_reader.h"
#include "daemon/collect/perf_map.h"

#define CHANNEL_PATH	"/memfd:" HAB_CHANNEL_FILE

/* A line of /proc/PID/maps. */
struct line {
	uint64_t start;
	uint64_t end;
	uint64_t offset;
	uint64_t inode;
	bool executable;
	const char *path; /* in the line */
};

struct reading {
	uint32_t pid;
	struct stat program; /* inode 0: it is not known */
	bool has_file;	     /* one of the lines before had one */
	bool adds;	     /* to what the process has sent before */
	char path[PATH_MAX]; /* of the last line with a folder, see HAB_MAPS_SAME_FOLDER */
	/* That the process has said of the next line's file; length 0: none. */
	uint8_t build_id[HAB_BUILD_ID_LEN];
	unsigned int build_id_length;
	struct maps *maps;
};

/* False if @text is no such line. It is changed. */
static bool parse_line(char *text, struct line *line)
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

/* True if a file is mapped. *name: its path, or what the mapping is called. */
static bool has_file(const struct line *line, const char **name)
{
	*name = line->path;
	/* Any process can give names to its anonymous memory: "[anon:...]". */
	if (!strncmp(line->path, "[anon", 5))
		*name = "[anon]";
	if (!line->inode && line->path[0] != '[')
		*name = "[jit]";
	return line->inode && line->path[0] != '[';
}

/* --- files ---------------------------------------------------------------------------- */

/* Frees @path. */
static int open_path(char *path, uint64_t inode, struct stat *status)
{
	int fd = open_regular(path, 0, status);

	free(path);
	if (fd < 0 || status->st_ino == inode)
		return fd;
	close(fd);
	return -1;
}

static int open_mapped(uint32_t pid, const struct line *line, struct stat *status)
{
	/* This works for deleted files, too, and needs CAP_CHECKPOINT_RESTORE. */
	int fd = open_path(xformat("/proc/%u/map_files/%" PRIx64 "-%" PRIx64, pid, line->start,
				   line->end),
			   line->inode, status);

	if (fd < 0)
		fd = open_path(xformat("/proc/%u/root%s", pid, line->path), line->inode, status);
	/* The process has ended, or may not be looked into. */
	if (fd < 0)
		fd = open_path(xstrdup(line->path), line->inode, status);
	return fd;
}

/* By now another file may be at the path, or its content may be another. */
static bool is_as_said(const struct reading *reading, const struct binary_file *file)
{
	return !reading->build_id_length ||
	       (file->build_id_length == reading->build_id_length &&
		!memcmp(file->build_id, reading->build_id, sizeof(file->build_id)));
}

static void set_said_id(const struct reading *reading, struct binary_file *file)
{
	if (file->fd >= 0)
		close(file->fd);
	*file = (struct binary_file){ .fd = -1, .build_id_length = reading->build_id_length };
	memcpy(file->build_id, reading->build_id, sizeof(file->build_id));
}

static void describe_file(struct reading *reading, const struct line *line,
			  struct binary_file *file, const char **name)
{
	bool is_first = !reading->has_file;
	struct statfs file_system;
	struct stat status;
	int length;

	reading->has_file = true;
	file->fd = open_mapped(reading->pid, line, &status);
	if (file->fd < 0) {
		set_said_id(reading, file);
		return;
	}
	length = build_id_read(file->fd, file->build_id);
	/* Code that a compiler made at run time may be in a file, too. */
	if (length < 0) {
		*name = "[jit]";
		close(file->fd);
		file->fd = -1;
		return;
	}
	file->build_id_length = (unsigned int)length;
	if (!is_as_said(reading, file)) {
		set_said_id(reading, file);
		return;
	}
	file->device = status.st_dev;
	file->inode = status.st_ino;
	file->size = status.st_size;
	file->changed = status.st_mtim;
	file->remote = fstatfs(file->fd, &file_system) || !file_system_is_local(&file_system);
	/* If the program is not known, it is the lowest: libraries are mapped above it. */
	file->executable = reading->program.st_ino ?
				   status.st_ino == reading->program.st_ino &&
					   status.st_dev == reading->program.st_dev :
				   is_first;
}

/* The process's number in its own PID namespace, which is the last of the line. */
static uint32_t own_number(uint32_t pid)
{
	const char *last = NULL;
	char numbers[512];

	if (process_status(pid, "NSpid", numbers, sizeof(numbers)))
		last = strrchr(numbers, '\t');
	return last ? (uint32_t)strtoul(last, NULL, 10) : pid;
}

/* Opens it where the running process sees /tmp. False: its user has made none. */
static bool open_perf_map(uint32_t pid, struct binary_file *file, char *name, size_t size)
{
	uint32_t number = own_number(pid);
	struct stat process, status;
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%u", pid);
	if (stat(path, &process))
		return false;
	snprintf(path, sizeof(path), "/proc/%u/root/tmp/perf-%u.map", pid, number);
	fd = perf_map_open(path, process.st_uid, &status);
	if (fd < 0)
		return false;
	/* Its time of change is left out: it grows, and stays the same file. */
	*file = (struct binary_file){ .fd = fd,
				      .device = status.st_dev,
				      .inode = status.st_ino };
	snprintf(name, size, "/tmp/perf-%u.map", number);
	return true;
}

/* --- maps ----------------------------------------------------------------------------- */

static void begin(struct reading *reading, uint32_t pid, struct maps *maps)
{
	char path[32];

	memset(maps, 0, sizeof(*maps));
	memset(reading, 0, sizeof(*reading));
	reading->pid = pid;
	reading->maps = maps;
	snprintf(path, sizeof(path), "/proc/%u/exe", pid);
	if (stat(path, &reading->program))
		reading->program.st_ino = 0;
}

static void add_line(struct reading *reading, const struct line *line)
{
	struct maps *maps = reading->maps;
	struct maps_entry *entry;
	const char *name;
	char perf_map[64];

	maps->entries = xgrow(maps->entries, maps->nr, &maps->room, sizeof(*maps->entries));
	entry = &maps->entries[maps->nr++];
	*entry = (struct maps_entry){ .start = line->start,
				      .end = line->end,
				      .offset = line->inode ? line->offset : 0,
				      .file.fd = -1,
				      .is_gone = !line->executable };
	if (entry->is_gone)
		return;
	if (has_file(line, &name))
		describe_file(reading, line, &entry->file, &name);
	if (!strcmp(name, "[jit]")) {
		entry->offset = line->start;
		if (open_perf_map(reading->pid, &entry->file, perf_map, sizeof(perf_map)))
			name = perf_map;
	}
	entry->name = xstrndup(name, strnlen(name, PATH_MAX));
}

static void take_build_id(struct reading *reading, const char *digits)
{
	unsigned int length = 0, byte;

	memset(reading->build_id, 0, sizeof(reading->build_id));
	while (length < HAB_BUILD_ID_LEN && isxdigit((unsigned char)digits[0]) &&
	       sscanf(digits, "%2x", &byte) == 1) {
		reading->build_id[length++] = (uint8_t)byte;
		digits += 1 + !!isxdigit((unsigned char)digits[1]);
	}
	reading->build_id_length = length;
}

/* The folder of the line before is that of this one, if it has none. */
static void set_folder(struct reading *reading, struct line *line)
{
	char *end = strrchr(reading->path, '/');
	size_t folder = end ? (size_t)(end + 1 - reading->path) : 0;
	bool is_same = !strncmp(line->path, HAB_MAPS_SAME_FOLDER, strlen(HAB_MAPS_SAME_FOLDER));

	if (*line->path != '/' && !is_same)
		return;
	if (!is_same)
		folder = 0;
	snprintf(reading->path + folder, sizeof(reading->path) - folder, "%s",
		 line->path + (is_same ? strlen(HAB_MAPS_SAME_FOLDER) : 0));
	line->path = reading->path;
}

static void take_line(struct reading *reading, char *text)
{
	const size_t prefix = strlen(HAB_MAPS_BUILD_ID);
	const struct maps *maps = reading->maps;
	struct line line;

	if (!strncmp(text, HAB_MAPS_BUILD_ID, prefix)) {
		take_build_id(reading, text + prefix);
		return;
	}
	/* Ascending and apart: they are searched by halves. */
	if (!parse_line(text, &line))
		return;
	set_folder(reading, &line);
	if ((line.executable || reading->adds) &&
	    (!maps->nr || line.start >= maps->entries[maps->nr - 1].end))
		add_line(reading, &line);
	reading->build_id_length = 0;
}

bool maps_read(uint32_t pid, struct maps *maps)
{
	struct reading reading;
	char path[32], *text = NULL;
	size_t room = 0;
	bool whole;
	FILE *file;

	begin(&reading, pid, maps);
	snprintf(path, sizeof(path), "/proc/%u/maps", pid);
	file = fopen(path, "re");
	if (!file)
		return false;
	while (maps->nr < MAPPINGS_MAX && getline(&text, &room, file) > 0)
		take_line(&reading, text);
	/* They end early if the process does. */
	rewind(file);
	whole = getc(file) != EOF;
	free(text);
	fclose(file);
	return whole;
}

void maps_parse(uint32_t pid, char *text, bool adds, struct maps *maps)
{
	struct reading reading;
	char *next;

	begin(&reading, pid, maps);
	reading.has_file = reading.adds = adds;
	for (; text && *text && maps->nr < MAPPINGS_MAX; text = next) {
		next = strchr(text, '\n');
		if (next)
			*next++ = 0;
		take_line(&reading, text);
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

/* --- the memory with a channel -------------------------------------------------------- */

/* False if the process has no memory. */
static bool find_channel(uint32_t pid, bool *found)
{
	bool has_memory = false;
	char path[32], *text = NULL;
	struct line line;
	size_t room = 0;
	FILE *file;

	*found = false;
	snprintf(path, sizeof(path), "/proc/%u/maps", pid);
	file = fopen(path, "re");
	while (file && !*found && getline(&text, &room, file) > 0) {
		has_memory = true;
		*found = parse_line(text, &line) &&
			 !strncmp(line.path, CHANNEL_PATH, strlen(CHANNEL_PATH));
	}
	free(text);
	if (file)
		fclose(file);
	return has_memory;
}

bool maps_has_memory(int fd)
{
	char byte;

	/* One byte is an error, or the end of the file if the memory is gone. */
	return pread(fd, &byte, 1, 0) < 0;
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
		/* What was read may be a part, if the process has ended meanwhile. */
		has_memory = has_memory && maps_has_memory(*fd);
		close(*fd);
		*fd = -1;
	}
	return has_memory;
}
