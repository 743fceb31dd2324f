// SPDX-License-Identifier: GPL-2.0-only
/*
 * Reads symbols.
 *
 * A file that is written anew in place ends only its own reading. libelf has it mapped, and an
 * access beyond the new end is answered by SIGBUS, which ends the reading here. What the library
 * has allocated for it is lost.
 */
#include "daemon/collect/symbol_reader.h"

#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "daemon/shared/util.h"
#include "daemon/collect/symbol_file.h"

#define FILES_MAX 256
#define IDLE_NS	  10000000000ull
/* Limits of all open files: of their size, since they are mapped, and of their symbols' memory. */
#define ALL_BYTES  (UINT64_C(2) << 30)
#define ALL_MEMORY (UINT64_C(256) << 20)

struct open_file {
	uint64_t number;
	uint64_t used; /* ordinal of its last use; 0: free */
	uint64_t used_ns; /* when that was */
	uint64_t size; /* in bytes, of its debug file, too */
	uint64_t memory;
	struct symbol_file *file;
};

struct symbol_reader {
	uint64_t uses;
	struct open_file files[FILES_MAX];
	/* Sums of all of them. */
	uint64_t size;
	uint64_t memory;
	struct sigaction before; /* what SIGBUS did */
};

static _Thread_local volatile sig_atomic_t is_reading;
static sigjmp_buf cut_off; /* of the thread that is reading */

static void end_reading(int number)
{
	if (is_reading)
		siglongjmp(cut_off, 1);
	/* It is no file's: the access is tried again, and ends the program. */
	signal(number, SIG_DFL);
}

struct symbol_reader *symbol_reader_new(void)
{
	struct symbol_reader *reader = xcalloc(1, sizeof(*reader));
	struct sigaction action = { .sa_handler = end_reading };

	sigaction(SIGBUS, &action, &reader->before);
	return reader;
}

/* --- open files ----------------------------------------------------------------------- */

/* Its memory is not freed. */
static void forget(struct symbol_reader *reader, struct open_file *file)
{
	reader->size -= file->size;
	reader->memory -= file->memory;
	memset(file, 0, sizeof(*file));
}

static void drop(struct symbol_reader *reader, struct open_file *file)
{
	symbol_file_close(file->file);
	forget(reader, file);
}

/* NULL: it is not open. */
static struct open_file *find_open(struct symbol_reader *reader, uint64_t number)
{
	struct open_file *file;

	for (file = reader->files; file < reader->files + FILES_MAX; file++)
		if (file->used && file->number == number)
			return file;
	return NULL;
}

/* NULL: there is none. */
static struct open_file *find_oldest(struct symbol_reader *reader)
{
	struct open_file *oldest = NULL, *file;

	for (file = reader->files; file < reader->files + FILES_MAX; file++)
		if (file->used && (!oldest || file->used < oldest->used))
			oldest = file;
	return oldest;
}

static struct open_file *find_free(struct symbol_reader *reader)
{
	struct open_file *file;

	for (file = reader->files; file < reader->files + FILES_MAX; file++)
		if (!file->used)
			return file;
	return NULL;
}

/* A free place, and room for a file of that size. */
static struct open_file *make_room(struct symbol_reader *reader, uint64_t size)
{
	struct open_file *oldest = find_oldest(reader);

	while (oldest && (!find_free(reader) || reader->size + size > ALL_BYTES ||
			  reader->memory > ALL_MEMORY)) {
		drop(reader, oldest);
		oldest = find_oldest(reader);
	}
	return find_free(reader);
}

static uint64_t size_of(int fd)
{
	struct stat status;

	return fd < 0 || fstat(fd, &status) || status.st_size < 0 ? 0 : (uint64_t)status.st_size;
}

static struct open_file *open_file(struct symbol_reader *reader,
				   const struct symbol_source *source, int debug_fd)
{
	struct open_file *file = find_open(reader, source->id);
	uint64_t size;

	/* Its debug file has come since. */
	if (file && debug_fd >= 0 && symbol_file_needs_debug(file->file)) {
		drop(reader, file);
		file = NULL;
	}
	if (!file) {
		size = size_of(source->fd) + size_of(debug_fd);
		file = make_room(reader, size);
		/* This may end by SIGBUS. Until it is done the place is free. */
		file->file = symbol_file_open(source->fd, debug_fd, source->path,
					      source->beside);
		file->number = source->id;
		file->size = size;
		file->memory = symbol_file_memory(file->file);
		reader->size += file->size;
		reader->memory += file->memory;
	}
	file->used = ++reader->uses;
	file->used_ns = clock_monotonic_ns();
	return file;
}

void symbol_reader_tidy(struct symbol_reader *reader, symbol_file_stays stays, void *context)
{
	uint64_t now = clock_monotonic_ns();
	struct open_file *file;

	for (file = reader->files; file < reader->files + FILES_MAX; file++)
		if (file->used && now - file->used_ns >= IDLE_NS && !stays(context, file->number))
			drop(reader, file);
}

void symbol_reader_free(struct symbol_reader *reader)
{
	struct open_file *file;

	if (!reader)
		return;
	while ((file = find_oldest(reader)))
		drop(reader, file);
	sigaction(SIGBUS, &reader->before, NULL);
	free(reader);
}

/* --- answers -------------------------------------------------------------------------- */

/* What is known of lines makes the file larger. */
static char *find(struct symbol_reader *reader, struct open_file *file, uint64_t offset,
		  enum symbol_question question)
{
	char *text;

	if (question == SYMBOL_NAME)
		return symbol_file_find(file->file, offset);
	text = symbol_file_find_lines(file->file, offset);
	reader->memory -= file->memory;
	file->memory = symbol_file_memory(file->file);
	reader->memory += file->memory;
	return text;
}

static enum symbol_answer answer(struct symbol_reader *reader, const struct symbol_source *source,
				 uint64_t offset, enum symbol_question question, int debug_fd,
				 struct symbol_reply *reply)
{
	struct open_file *file = open_file(reader, source, debug_fd);

	if (symbol_file_has_too_many(file->file))
		return SYMBOL_TOO_MANY;
	reply->needs_debug = symbol_file_needs_debug(file->file);
	reply->may_grow = symbol_file_may_grow(file->file);
	reply->text = find(reader, file, offset, question);
	if (!reply->text && symbol_file_has_grown(file->file, source->fd)) {
		drop(reader, file);
		file = open_file(reader, source, debug_fd);
		reply->text = find(reader, file, offset, question);
	}
	return SYMBOL_ANSWERED;
}

enum symbol_answer symbol_reader_find(struct symbol_reader *reader,
				      const struct symbol_source *source, uint64_t offset,
				      enum symbol_question question, int debug_fd,
				      struct symbol_reply *reply)
{
	enum symbol_answer result;
	struct open_file *file;

	if (sigsetjmp(cut_off, 1)) {
		is_reading = false;
		file = find_open(reader, source->id);
		if (file)
			forget(reader, file);
		return SYMBOL_CUT_OFF;
	}
	is_reading = true;
	result = answer(reader, source, offset, question, debug_fd, reply);
	is_reading = false;
	return result;
}
