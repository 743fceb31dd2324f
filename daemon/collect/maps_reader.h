/* SPDX-License-Identifier: GPL-2.0-only */
/* The executable mappings of a process, as /proc/PID/maps describes them, and their files. */
#ifndef HABD_MAPS_H
#define HABD_MAPS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/collect/binaries.h"

#define MAPPINGS_MAX 65536

struct maps_entry {
	uint64_t start;
	uint64_t end;
	uint64_t offset;	 /* in the file; of "[jit]" and a perf map the address */
	struct binary_file file; /* fd is -1 if there is no file, or if it cannot be read */
	char *name;		 /* path of the file, or a name in brackets */
	bool is_gone;		 /* nothing is mapped there, or no code */
};

struct maps {
	struct maps_entry *entries; /* ascending */
	unsigned int nr;
	unsigned int room;
};

/*
 * Reads the maps of @pid and opens its files. False if they are not all of its maps: it has ended,
 * or may not be read. maps_end() frees.
 */
bool maps_read(uint32_t pid, struct maps *maps);
/*
 * The same of a text that @pid, which may have ended, has sent. @adds: to what it has sent before.
 * The text is changed.
 */
void maps_parse(uint32_t pid, char *text, bool adds, struct maps *maps);
void maps_end(struct maps *maps);

/*
 * Opens the memory in which the process has its channel; *fd is -1 if it has none. False if the
 * process has ended, or cannot be read.
 */
bool maps_open_memory(uint32_t pid, int *fd);
/* False after an exec of the process, and at its end. */
bool maps_has_memory(int fd);

#endif /* HABD_MAPS_H */
