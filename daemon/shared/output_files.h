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

struct numbered_file {
	uint64_t number;
	uint64_t size;
};

/* NAME.SUFFIX becomes NAME-000001.SUFFIX and so on. */
struct numbered_files {
	const char *suffix;
	char *name;		     /* without the suffix */
	uint64_t max_size;	     /* of all files together; 0: no limit */
	uint64_t max_files;	     /* 0: no limit */
	struct numbered_file *table; /* the oldest first */
	unsigned int count;
	unsigned int room;
	uint64_t size; /* of all */
};

/*
 * Files that exist already count for the limits, and are removed first. False after a sentence: the
 * folder cannot be read. numbered_files_end() frees.
 */
bool numbered_files_begin(struct numbered_files *files, const char *path, const char *suffix,
			  uint64_t max_size, uint64_t max_files);
void numbered_files_end(struct numbered_files *files);

/*
 * Removes as many of the oldest files as it must, and writes the next one. False after a sentence;
 * nothing is removed for data that exceed the limit alone.
 */
bool numbered_files_write(struct numbered_files *files, const void *data, size_t length);
/* The path of the newest file; free() it. */
char *numbered_files_newest(const struct numbered_files *files);

#endif /* HABD_OUTPUT_FILES_H */
