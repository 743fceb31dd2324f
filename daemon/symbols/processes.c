// SPDX-License-Identifier: GPL-2.0-only
/*
 * Snapshots of /proc/PID/maps, which translate the addresses of stacks to offsets in files.
 *
 * The hard case is a short-lived process: the snapshot must be taken while it runs. So it
 * is taken at the first record of the process, and again only for an address that it does not
 * cover. The files are opened through /proc/PID/map_files, which works across mount namespaces and
 * for deleted files; each is first opened with O_PATH, so that no device or pipe is opened by
 * mistake.
 */
#include "daemon/symbols/processes.h"

#include <ctype.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/shared/hash.h"

#define PROCESSES_MAX 4096
#define MAPPINGS_MAX  4096
#define PAUSE_MIN_NS  100000000ull
#define PAUSE_MAX_NS  12800000000ull
#define IDLE_NS	      60000000000ull

struct mapping {
	uint64_t start;
	uint64_t end;
	uint64_t offset; /* in the file */
	unsigned int binary;
};

struct process {
	UT_hash_handle hh;
	uint32_t pid;
	uint64_t read_ns;  /* when the maps were read last */
	uint64_t pause_ns; /* before they may be read again */
	uint64_t seen_ns;
	bool readable;		  /* the last reading worked */
	struct mapping *mappings; /* ascending, executable ones only */
	unsigned int nr_mappings;
};

struct processes {
	struct binaries *binaries;
	struct process *by_pid; /* that not seen for longest first */
	uint64_t unreadable;
};

struct maps_line {
	uint64_t start;
	uint64_t end;
	uint64_t offset;
	uint64_t inode;
	bool executable;
	const char *path; /* in the line */
};

struct processes *processes_new(struct binaries *binaries)
{
	struct processes *processes = xcalloc(1, sizeof(*processes));

	processes->binaries = binaries;
	return processes;
}

static void drop_oldest(struct processes *processes)
{
	struct process *process = processes->by_pid;

	HASH_DELETE(hh, processes->by_pid, process);
	free(process->mappings);
	free(process);
}

void processes_free(struct processes *processes)
{
	if (!processes)
		return;
	while (processes->by_pid)
		drop_oldest(processes);
	free(processes);
}

uint64_t processes_unreadable(const struct processes *processes)
{
	return processes->unreadable;
}

static bool parse_line(char *text, struct maps_line *line)
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

/* An open file of the wanted inode, or -1. */
static int open_regular(const char *path, uint64_t inode)
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

static int open_mapped(uint32_t pid, const struct maps_line *line)
{
	char *path;
	int fd;

	path = xformat("/proc/%u/map_files/%" PRIx64 "-%" PRIx64, pid, line->start, line->end);
	fd = open_regular(path, line->inode);
	free(path);
	if (fd >= 0)
		return fd;
	/* map_files needs CAP_CHECKPOINT_RESTORE; a path may do without. */
	path = xformat("/proc/%u/root%s", pid, line->path);
	fd = open_regular(path, line->inode);
	free(path);
	return fd;
}

static unsigned int line_binary(struct processes *processes, uint32_t pid,
				const struct maps_line *line)
{
	int fd;

	/* Any process can give names to its anonymous memory: "[anon:...]". */
	if (!strncmp(line->path, "[anon", 5))
		return binaries_add_name(processes->binaries, "[anon]");
	if (line->path[0] == '[')
		return binaries_add_name(processes->binaries, line->path);
	/* Code that a compiler made at run time: no file has its names. */
	if (!line->inode)
		return binaries_add_name(processes->binaries, "[jit]");
	fd = open_mapped(pid, line);
	if (fd < 0)
		return binaries_add_name(processes->binaries, line->path);
	return binaries_add_file(processes->binaries, fd, line->path);
}

static void mark_executable(struct processes *processes, uint32_t pid,
			    const struct mapping *mappings, unsigned int count)
{
	struct binary *binary;
	struct stat status;
	unsigned int i;
	char path[32];

	snprintf(path, sizeof(path), "/proc/%u/exe", pid);
	if (stat(path, &status))
		return;
	for (i = 0; i < count; i++) {
		binary = binaries_get(processes->binaries, mappings[i].binary);
		if (binary->fd >= 0 && binary->inode == status.st_ino &&
		    binary->device == status.st_dev)
			binary->executable = true;
	}
}

static struct mapping *read_maps(struct processes *processes, uint32_t pid, unsigned int *count)
{
	struct mapping *mappings = NULL;
	struct maps_line line;
	unsigned int room = 0;
	char path[32], *text = NULL;
	size_t text_room = 0;
	FILE *file;

	*count = 0;
	snprintf(path, sizeof(path), "/proc/%u/maps", pid);
	file = fopen(path, "re");
	if (!file)
		return NULL;
	while (*count < MAPPINGS_MAX && getline(&text, &text_room, file) > 0) {
		if (!parse_line(text, &line) || !line.executable)
			continue;
		mappings = xgrow(mappings, *count, &room, sizeof(*mappings));
		/* Without a file the offset is the distance from the start of the mapping. */
		mappings[(*count)++] = (struct mapping){ line.start, line.end,
							 line.inode ? line.offset : 0,
							 line_binary(processes, pid, &line) };
	}
	free(text);
	fclose(file);
	if (mappings)
		mark_executable(processes, pid, mappings, *count);
	return mappings;
}

static void process_read(struct processes *processes, struct process *process, uint64_t now_ns)
{
	struct mapping *mappings;
	unsigned int count;

	process->read_ns = now_ns;
	mappings = read_maps(processes, process->pid, &count);
	process->readable = mappings != NULL;
	if (!mappings) {
		/* It has ended; records that are still to come use what was read earlier. */
		processes->unreadable++;
		return;
	}
	free(process->mappings);
	process->mappings = mappings;
	process->nr_mappings = count;
}

struct process *processes_see(struct processes *processes, uint32_t pid, bool fresh,
			      uint64_t now_ns)
{
	struct process *process;

	HASH_FIND(hh, processes->by_pid, &pid, sizeof(pid), process);
	if (process) {
		HASH_DELETE(hh, processes->by_pid, process);
	} else {
		if (HASH_COUNT(processes->by_pid) == PROCESSES_MAX)
			drop_oldest(processes);
		process = xcalloc(1, sizeof(*process));
		process->pid = pid;
		fresh = true;
	}
	/* At the end: the list stays in the order of the last sight. */
	HASH_ADD(hh, processes->by_pid, pid, sizeof(process->pid), process);
	process->seen_ns = now_ns;
	if (fresh) {
		process->pause_ns = PAUSE_MIN_NS;
		process_read(processes, process, now_ns);
	}
	return process;
}

static const struct mapping *find(const struct process *process, uint64_t address)
{
	unsigned int low = 0, high = process->nr_mappings, middle;

	while (low < high) {
		middle = low + (high - low) / 2;
		if (address < process->mappings[middle].start)
			high = middle;
		else if (address >= process->mappings[middle].end)
			low = middle + 1;
		else
			return &process->mappings[middle];
	}
	return NULL;
}

static bool may_reread(const struct process *process, uint64_t now_ns)
{
	/* A process that has ended stays unreadable; HAB_RECORD_HEAP announces a new one. */
	return process->readable && now_ns - process->read_ns >= process->pause_ns;
}

/* Some addresses are in no mapping at all: each search that fails doubles the pause. */
static void set_pause(struct process *process, bool helped)
{
	process->pause_ns = helped ? PAUSE_MIN_NS : process->pause_ns * 2;
	if (process->pause_ns > PAUSE_MAX_NS)
		process->pause_ns = PAUSE_MAX_NS;
}

uint64_t processes_frame(struct processes *processes, struct process *process, uint64_t address,
			 uint64_t now_ns)
{
	const struct mapping *mapping = find(process, address);

	if (!mapping && may_reread(process, now_ns)) {
		process_read(processes, process, now_ns);
		mapping = find(process, address);
		set_pause(process, mapping != NULL);
	}
	if (!mapping || mapping->binary == BINARY_UNKNOWN)
		return FRAME(BINARY_UNKNOWN, address);
	return FRAME(mapping->binary, address - mapping->start + mapping->offset);
}

static unsigned int find_mapped(const struct processes *processes, const struct process *process,
				const uint8_t *build_id)
{
	const struct binary *binary;
	unsigned int i;

	for (i = 0; i < process->nr_mappings; i++) {
		binary = binaries_get(processes->binaries, process->mappings[i].binary);
		if (binary->build_id_length &&
		    !memcmp(binary->build_id, build_id, sizeof(binary->build_id)))
			return process->mappings[i].binary;
	}
	return BINARY_UNKNOWN;
}

uint64_t processes_file_frame(struct processes *processes, struct process *process,
			      const uint8_t *build_id, uint64_t offset, uint64_t now_ns)
{
	unsigned int binary = find_mapped(processes, process, build_id);

	if (binary == BINARY_UNKNOWN && may_reread(process, now_ns)) {
		process_read(processes, process, now_ns);
		binary = find_mapped(processes, process, build_id);
		set_pause(process, binary != BINARY_UNKNOWN);
	}
	if (binary == BINARY_UNKNOWN)
		binary = binaries_find_id(processes->binaries, build_id);
	return FRAME(binary, offset);
}

void processes_tidy(struct processes *processes, uint64_t now_ns)
{
	while (processes->by_pid && now_ns - processes->by_pid->seen_ns >= IDLE_NS)
		drop_oldest(processes);
}
