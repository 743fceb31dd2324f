/* SPDX-License-Identifier: GPL-2.0-only */
/* The files that habctl and habrun write. */
#ifndef HABD_OUTPUT_FILES_H
#define HABD_OUTPUT_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A file that appears under its name when it is complete. */
struct output_file {
	const char *path; /* as it was given */
	char *at;	  /* in full, of what a symbolic link names */
	int folder;	  /* of @at; -1: none */
	char *written;	  /* where the file is; NULL: nowhere */
};

/* Checks that the file can be written. False after a sentence. output_file_drop() frees. */
bool output_file_open(struct output_file *output, const char *path);
/*
 * Writes the file, replacing an old one. False after a sentence: it is in TMPDIR instead
 * (@written), or nothing of it is left.
 */
bool output_file_write(struct output_file *output, const void *data, size_t length);
void output_file_drop(struct output_file *output);

#endif /* HABD_OUTPUT_FILES_H */
