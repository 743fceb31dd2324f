/* SPDX-License-Identifier: GPL-2.0-only */
/* The symbols of one ELF file. Only symbol_reader.c's own process looks at them. */
#ifndef HABD_SYMBOL_FILE_H
#define HABD_SYMBOL_FILE_H

#include <stdbool.h>
#include <stdint.h>

/* How long names may wait for debug files from the network; for all that share it. */
struct symbol_time {
	uint64_t deadline_ns; /* CLOCK_MONOTONIC; 0: the network is not asked */
	bool is_up;
};

struct symbol_file;

/*
 * The descriptor stays the caller's; path is where to look for its debug file. time is used until
 * the file is closed. Never fails: one that cannot be read has no names.
 */
struct symbol_file *symbol_file_open(int fd, const char *path, struct symbol_time *time);
void symbol_file_close(struct symbol_file *file);
bool symbol_file_is_readable(const struct symbol_file *file);
/* The function that covers an offset in the file; NULL if no symbol does. The caller frees. */
char *symbol_file_find(struct symbol_file *file, uint64_t offset);

#endif /* HABD_SYMBOL_FILE_H */
