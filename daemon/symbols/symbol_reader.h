/* SPDX-License-Identifier: GPL-2.0-only */
/* Reads the symbols of files, in a worker (worker.h) that has no files but those it is given. */
#ifndef HABD_SYMBOL_READER_H
#define HABD_SYMBOL_READER_H

#include <stdbool.h>
#include <stdint.h>

#define SYMBOL_NAME_MAX 1000u

struct symbol_question {
	uint64_t file; /* the reader keeps the file open under this number */
	int fd;
	int debug_fd; /* -1: none */
	const char *path;
	uint64_t offset;
	uint64_t deadline_ns; /* CLOCK_MONOTONIC */
};

enum symbol_answer {
	SYMBOL_NONE,	   /* no symbol covers the offset */
	SYMBOL_FOUND,	   /* it is in reply.name */
	SYMBOL_TOO_MANY,   /* the file has more symbols than are read */
	SYMBOL_UNREADABLE, /* the file ended its reader: worker_end_text() */
	SYMBOL_LATE,	   /* the answer did not come in time */
	SYMBOL_KILLED,	   /* the reader was killed, most often for want of memory */
	SYMBOL_NO_READER,  /* at the moment, or for good */
};

struct symbol_reply {
	uint64_t used_ns; /* of the reader's processor */
	int needs_debug;  /* the file is stripped, and the reader has no debug file of it */
	int may_grow;	  /* the file may get more names */
	char name[SYMBOL_NAME_MAX + 1];
};

struct worker;

/* Called before the program has threads, since it forks. NULL after a sentence. */
struct worker *symbol_reader_new(void);
/* One thread at a time. */
enum symbol_answer symbol_reader_request(struct worker *reader,
					 const struct symbol_question *question,
					 struct symbol_reply *reply);

#endif /* HABD_SYMBOL_READER_H */
