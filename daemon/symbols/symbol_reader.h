/* SPDX-License-Identifier: GPL-2.0-only */
/* A process of its own that reads the symbols of files. */
#ifndef HABD_SYMBOL_READER_H
#define HABD_SYMBOL_READER_H

#include <stdbool.h>
#include <stdint.h>

#define SYMBOL_NAME_MAX 1000u

enum symbol_answer {
	SYMBOL_NONE,	   /* no symbol covers the offset */
	SYMBOL_FOUND,	   /* name has it */
	SYMBOL_LATE,	   /* none, but time was up before its debug file was there */
	SYMBOL_UNREADABLE, /* the file ended its reader, or nobody reads any more */
};

struct symbol_reader;

/* Before the program has threads, as it makes processes. NULL after a sentence. */
struct symbol_reader *symbol_reader_new(void);
void symbol_reader_free(struct symbol_reader *reader);

/*
 * binary: the file's number, by which it stays open there; deadline_ns: until when the network
 * may be asked for debug files, 0 if not at all. One thread at a time.
 */
enum symbol_answer symbol_reader_ask(struct symbol_reader *reader, unsigned int binary, int fd,
				     const char *path, uint64_t offset, uint64_t deadline_ns,
				     char name[SYMBOL_NAME_MAX + 1]);

#endif /* HABD_SYMBOL_READER_H */
