/* SPDX-License-Identifier: GPL-2.0-only */
/* A file that appears under its name when it is complete. */
#ifndef HABCTL_OUTPUT_FILE_H
#define HABCTL_OUTPUT_FILE_H

#include <stdbool.h>
#include <stddef.h>

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

#endif /* HABCTL_OUTPUT_FILE_H */
