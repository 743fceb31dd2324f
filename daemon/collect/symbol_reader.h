/* SPDX-License-Identifier: GPL-2.0-only */
/* Reads the symbols of files, and keeps those that were used last open. */
#ifndef HABD_SYMBOL_READER_H
#define HABD_SYMBOL_READER_H

#include <stdbool.h>
#include <stdint.h>

/* A file with functions. */
struct symbol_source {
	uint64_t id; /* no two files have the same */
	int fd;	     /* -1: it has no names but those that were found before */
	const char *path;
	bool beside; /* a debug file that it names may be beside it: it is this user's program */
	const uint8_t *build_id;
	unsigned int build_id_length;
};

enum symbol_answer {
	SYMBOL_ANSWERED,
	SYMBOL_TOO_MANY, /* the file has more symbols than are read */
	SYMBOL_CUT_OFF,	 /* the file became shorter meanwhile */
};

/* What is asked of an offset. */
enum symbol_question {
	SYMBOL_NAME,  /* the function that covers it */
	SYMBOL_LINES, /* a text, as of source_lines_find() */
};

struct symbol_reply {
	bool needs_debug; /* the file is stripped, and the reader has no debug file of it */
	bool may_grow;	  /* the file may get more names */
	char *text;	  /* NULL: there is none; else free() it */
};

struct symbol_reader;

/* A program has one at most. */
struct symbol_reader *symbol_reader_new(void);
void symbol_reader_free(struct symbol_reader *reader);
/* True: a file with that id stays open. */
typedef bool (*symbol_file_stays)(void *context, uint64_t id);

/* Closes the files that do not stay and no name was asked of for a while. One thread at a time. */
void symbol_reader_tidy(struct symbol_reader *reader, symbol_file_stays stays, void *context);
/*
 * One thread at a time. @debug_fd: the file's separate debug file, -1: none. @reply is set only
 * with SYMBOL_ANSWERED.
 */
enum symbol_answer symbol_reader_find(struct symbol_reader *reader,
				      const struct symbol_source *source, uint64_t offset,
				      enum symbol_question question, int debug_fd,
				      struct symbol_reply *reply);

#endif /* HABD_SYMBOL_READER_H */
