/* SPDX-License-Identifier: GPL-2.0-only */
/* A file that is there when it is whole, or not at all. */
#ifndef HABCTL_OUTPUT_H
#define HABCTL_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>

struct output {
	const char *path;
	char *temporary;
	int fd;
};

/* Looks whether the file can be written, and makes room for it. False after a sentence. */
bool output_open(struct output *output, const char *path);
/* Writes it; whatever was there before is replaced. False after a sentence; nothing is left then. */
bool output_keep(struct output *output, const void *data, size_t length);
/* Leaves nothing behind. May be called at any time. */
void output_drop(struct output *output);

/*
 * After the last of what goes to standard output, so that a full disk is no success. False after
 * a sentence.
 */
bool output_flush(const char *what);

#endif /* HABCTL_OUTPUT_H */
