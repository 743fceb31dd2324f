/* SPDX-License-Identifier: GPL-2.0-only */
/* The executable mappings of a process, as /proc/PID/maps describes them, and their files. */
#ifndef HABD_MAPS_H
#define HABD_MAPS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "daemon/symbols/binaries.h"

#define MAPPINGS_MAX 4096

enum maps_kind {
	MAPS_MAPPING,
	MAPS_MEMORY,   /* the memory in which the process has its channel; no file: it has none */
	MAPS_PERF_MAP, /* of a process that has ended */
};

struct maps_entry {
	enum maps_kind kind; /* the next three are of a mapping */
	uint64_t start;
	uint64_t end;
	/* In the file; of "[jit]" and a perf map the address; else the distance from the start. */
	uint64_t offset;
	/* fd is -1 if there is no file, or if it cannot be read without a risk to wait. */
	struct binary_file file;
	char *name; /* path of the file, or a name in brackets */
};

struct maps {
	struct maps_entry *entries; /* mappings, ascending, and after them the other kinds */
	unsigned int nr;
	unsigned int room;
};

/* A line of /proc/PID/maps. */
struct maps_line {
	uint64_t start;
	uint64_t end;
	uint64_t offset;
	uint64_t inode;
	bool executable;
	const char *path; /* in the line */
};

/* False if @text is no such line. It is changed. */
bool maps_line_parse(char *text, struct maps_line *line);
/* True if a file is mapped. *name: its path, or what the mapping is called. */
bool maps_line_has_file(const struct maps_line *line, const char **name);

/* An open file of the wanted inode, or -1. Opens no device or pipe, and does not wait. */
int maps_open(const char *path, uint64_t inode);
/* Describes the ELF file @fd; *fd becomes -1, and *name "[jit]", if it is none. */
void maps_describe(int *fd, const struct stat *status, struct binary_file *file, const char **name);

/*
 * The perf map of a running process, where the process sees /tmp, in @name of @size bytes: -1 if
 * there is none that the process's user has made.
 */
int maps_open_perf_map(uint32_t pid, struct stat *status, char *name, size_t size);
/*
 * The perf map that a process of @user has written before it ended, where this process sees /tmp.
 * @since: an older file is another process's; CLOCK_REALTIME.
 */
int maps_open_late_perf_map(uint32_t pid, uid_t user, uint64_t since_ns, struct stat *status,
			    char *name, size_t size);
void maps_describe_perf_map(const struct stat *status, struct binary_file *file);

/*
 * Opens the memory in which the process has its channel; *fd is -1 if it has none. False if the
 * process has ended, or cannot be read.
 */
bool maps_open_memory(uint32_t pid, int *fd);
/* False after an exec of the process, and at its end. */
bool maps_has_memory(int fd);

/*
 * Reads a text of such lines of @pid, which is changed, and opens their files, which must be those
 * of this process's own mounts and user: so no worker is needed. maps_end() frees.
 */
void maps_parse(uint32_t pid, char *text, struct maps *maps);
/* Adds the perf map of a process that has ended, as maps_open_late_perf_map() finds it. */
void maps_add_late_perf_map(struct maps *maps, uint32_t pid, uid_t user, uint64_t since_ns);
void maps_end(struct maps *maps);

#endif /* HABD_MAPS_H */
