/* SPDX-License-Identifier: GPL-2.0-only */
/* The files that habctl and habrun write. */
#ifndef HABD_OUTPUT_FILES_H
#define HABD_OUTPUT_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A format of profiles, by the suffix of the file's name. */
struct output_format {
	const char *suffix;
	const char *name;     /* as in daemon/profile/formats/formats.h */
	const char *next;     /* the command that shows such a file */
	const char *views[2]; /* as in daemon/profile/formats/formats.h: without --live, and with it */
};

/* NULL after a sentence: the suffix is of no format. */
const struct output_format *output_format_of(const char *path);

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
