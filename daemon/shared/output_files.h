/* SPDX-License-Identifier: GPL-2.0-only */
/* The files that habctl and habrun write. */
#ifndef HABD_OUTPUT_FILES_H
#define HABD_OUTPUT_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A file that appears under its name when it is complete. */
struct output_file {
	const char *path;
	char *temporary;
	int fd;
};

/* Checks that the file can be written, and makes the temporary one. False after a sentence. */
bool output_file_open(struct output_file *output, const char *path);
/* Writes the file, replacing an old one. False after a sentence; nothing is left then. */
bool output_file_write(struct output_file *output, const void *data, size_t length);
/* Removes the temporary file, if there is one. */
void output_file_drop(struct output_file *output);

#endif /* HABD_OUTPUT_FILES_H */
