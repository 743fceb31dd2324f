/* SPDX-License-Identifier: GPL-2.0-only */
/* The files whose static probes are followed. */
#ifndef HABD_LIBRARIES_H
#define HABD_LIBRARIES_H

#include <stdbool.h>

#define LIBRARIES_MAX 16

struct libraries {
	const char *paths[LIBRARIES_MAX];
	unsigned int nr;
};

/* False after a sentence: there are too many. @path is not copied. */
bool libraries_add(struct libraries *libraries, const char *path);
/* Adds the libhab.so of the usual folders, each file once; returns the number of all. */
unsigned int libraries_find(struct libraries *libraries);

#endif /* HABD_LIBRARIES_H */
