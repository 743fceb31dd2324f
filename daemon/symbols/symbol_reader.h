/* SPDX-License-Identifier: GPL-2.0-only */
/* Reads the symbols of files, in a process of its own. */
#ifndef HABD_SYMBOL_READER_H
#define HABD_SYMBOL_READER_H

#include <stdbool.h>
#include <stdint.h>

#define SYMBOL_NAME_MAX 1000u

enum symbol_answer {
	SYMBOL_NONE,	   /* no symbol covers the offset */
	SYMBOL_FOUND,	   /* it is in @name */
	SYMBOL_LATE,	   /* none, but its debug file did not come in time */
	SYMBOL_UNREADABLE, /* the file ended its reader, or there is no reader any more */
};

struct symbol_reader;

/* Called before the program has threads, since it forks. NULL after a sentence. */
struct symbol_reader *symbol_reader_new(void);
void symbol_reader_free(struct symbol_reader *reader);

/*
 * @binary: the file's number, by which the reader keeps it open; @deadline_ns: time limit for debug
 * files from the network, 0: the network is not used. One thread at a time.
 */
enum symbol_answer symbol_reader_request(struct symbol_reader *reader, unsigned int binary, int fd,
					 const char *path, uint64_t offset, uint64_t deadline_ns,
					 char name[SYMBOL_NAME_MAX + 1]);

#endif /* HABD_SYMBOL_READER_H */
