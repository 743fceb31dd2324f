/* SPDX-License-Identifier: GPL-2.0-only */
/* The files of one recording, which together stay below what was promised. */
#ifndef HABCTL_ROTATION_H
#define HABCTL_ROTATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rotation_file {
	uint64_t number;
	uint64_t size;
};

/* NAME.SUFFIX becomes NAME-000001.SUFFIX and so on. */
struct rotation {
	const char *suffix;
	char *name;		     /* without the suffix */
	uint64_t max_size;	     /* of all files together; 0: any */
	uint64_t max_files;	     /* 0: any */
	struct rotation_file *files; /* the oldest first */
	unsigned int count;
	unsigned int room;
	uint64_t size; /* of all */
};

/*
 * Files that are there from before count, too, and are the first to go. False after a sentence:
 * the folder cannot be read. rotation_end() frees.
 */
bool rotation_begin(struct rotation *rotation, const char *path, const char *suffix,
		    uint64_t max_size, uint64_t max_files);
void rotation_end(struct rotation *rotation);

enum rotation_result {
	ROTATION_KEPT,
	ROTATION_TOO_LARGE, /* this one alone is more than all may be: nothing was changed */
	ROTATION_FAILED,
};

/* Writes the next file, after as many of the oldest have gone as must. Says a sentence if not. */
enum rotation_result rotation_keep(struct rotation *rotation, const void *data, size_t length);
/* The newest file; free() it. */
char *rotation_newest(const struct rotation *rotation);

#endif /* HABCTL_ROTATION_H */
