// SPDX-License-Identifier: GPL-2.0-only
/*
 * Reads symbols in a worker.
 *
 * The hard case is a hostile file. Any user's program is read here, and libraries for ELF and DWARF
 * are not made for hostile files. So the worker opens no file: habd hands it the descriptors of
 * the file and of its debug file. A file that ends the worker, or takes too long, has no names.
 */
#include "daemon/symbols/symbol_reader.h"

#include <malloc.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "daemon/shared/util.h"
#include "daemon/symbols/symbol_file.h"
#include "daemon/symbols/worker.h"

#define FILES_MAX 256
/* Of all open files: their size, since they are mapped, and the memory that they take. */
#define ALL_BYTES  (UINT64_C(2) << 30)
#define ALL_MEMORY (UINT64_C(256) << 20)
#define MEMORY_MAX ((rlim_t)4 << 30)
#define PATH_BYTES 4096u

struct request {
	struct worker_head head;
	uint64_t file;
	uint64_t offset;
	char path[PATH_BYTES];
};

struct reply {
	struct worker_head head;
	int answer; /* enum symbol_answer */
	struct symbol_reply reply;
};

struct open_file {
	uint64_t number;
	uint64_t used;	 /* ordinal of its last use; 0: free */
	uint64_t size;	 /* in bytes, of its debug file, too */
	uint64_t memory; /* for its symbols, and of libelf */
	struct symbol_file *file;
};

struct reader {
	uint64_t uses;
	struct open_file files[FILES_MAX];
	/* Sums of all of them. */
	uint64_t size;
	uint64_t memory;
};

/* --- the worker ------------------------------------------------------------------- */

static void drop(struct reader *reader, struct open_file *file)
{
	if (file->used) {
		reader->size -= file->size;
		reader->memory -= file->memory;
		symbol_file_close(file->file);
	}
	memset(file, 0, sizeof(*file));
}

/* The open file, or else a free place. */
static struct open_file *find_place(struct reader *reader, uint64_t number)
{
	struct open_file *oldest = &reader->files[0], *file;

	for (file = reader->files; file < reader->files + FILES_MAX; file++) {
		if (file->used && file->number == number)
			return file;
		if (file->used < oldest->used)
			oldest = file;
	}
	drop(reader, oldest);
	return oldest;
}

static uint64_t size_of(int fd)
{
	struct stat status;

	return fd < 0 || fstat(fd, &status) || status.st_size < 0 ? 0 : (uint64_t)status.st_size;
}

static uint64_t allocated(void)
{
	struct mallinfo2 info = mallinfo2();

	return info.uordblks + info.hblkhd;
}

/* NULL: there is none. */
static struct open_file *oldest_file(struct reader *reader)
{
	struct open_file *oldest = NULL, *file;

	for (file = reader->files; file < reader->files + FILES_MAX; file++)
		if (file->used && (!oldest || file->used < oldest->used))
			oldest = file;
	return oldest;
}

/* Makes room for a file of that size. */
static void make_room(struct reader *reader, uint64_t size)
{
	struct open_file *oldest;

	while ((reader->size + size > ALL_BYTES || reader->memory > ALL_MEMORY) &&
	       (oldest = oldest_file(reader)))
		drop(reader, oldest);
}

static void open_file(struct reader *reader, struct open_file *file, const struct request *request,
		      int fd, int debug_fd)
{
	uint64_t before, now;

	file->size = size_of(fd) + size_of(debug_fd);
	make_room(reader, file->size);
	before = allocated();
	file->number = request->file;
	file->file = symbol_file_open(fd, debug_fd, request->path);
	now = allocated();
	file->memory = now > before ? now - before : 0;
	reader->size += file->size;
	reader->memory += file->memory;
}

static struct symbol_file *find_file(struct reader *reader, const struct request *request, int fd,
				     int debug_fd)
{
	struct open_file *file = find_place(reader, request->file);

	/* Its debug file has come since. */
	if (file->used && debug_fd >= 0 && symbol_file_needs_debug(file->file))
		drop(reader, file);
	if (!file->used)
		open_file(reader, file, request, fd, debug_fd);
	file->used = ++reader->uses;
	return file->file;
}

static void answer(struct reader *reader, const struct request *request, int fd, int debug_fd,
		   struct reply *reply)
{
	struct symbol_file *file = find_file(reader, request, fd, debug_fd);
	char *name;

	if (symbol_file_has_too_many(file)) {
		reply->answer = SYMBOL_TOO_MANY;
		return;
	}
	reply->reply.needs_debug = symbol_file_needs_debug(file);
	reply->reply.may_grow = symbol_file_may_grow(file);
	name = symbol_file_find(file, request->offset);
	if (!name && symbol_file_has_grown(file, fd)) {
		drop(reader, find_place(reader, request->file));
		file = find_file(reader, request, fd, debug_fd);
		name = symbol_file_find(file, request->offset);
	}
	reply->answer = name ? SYMBOL_FOUND : SYMBOL_NONE;
	if (name)
		snprintf(reply->reply.name, sizeof(reply->reply.name), "%s", name);
	free(name);
}

static uint64_t processor_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void work(int socket)
{
	static struct reader reader;
	static struct request request;
	struct worker_message in = { .data = &request }, out = { 0 };
	struct reply reply;
	uint64_t begin;

	for (;;) {
		in.size = sizeof(request);
		if (!worker_receive(socket, &in))
			return;
		memset(&reply, 0, sizeof(reply));
		reply.head.number = request.head.number;
		request.path[sizeof(request.path) - 1] = 0;
		begin = processor_ns();
		if (in.nr_files)
			answer(&reader, &request, in.files[0], in.nr_files > 1 ? in.files[1] : -1,
			       &reply);
		worker_close_files(&in);
		reply.reply.used_ns = processor_ns() - begin;
		out.data = &reply;
		out.size = offsetof(struct reply, reply.name) + strlen(reply.reply.name) + 1;
		if (!worker_send(socket, &out))
			return;
	}
}

/* --- habd's side ------------------------------------------------------------------ */

struct worker *symbol_reader_new(void)
{
	static const struct worker_kind kind = {
		.name = "habd-symbols",
		.work = work,
		.memory = MEMORY_MAX,
	};

	return worker_new(&kind);
}

static void fill_message(struct worker_message *message, struct request *request,
			 const struct symbol_question *question)
{
	request->file = question->file;
	request->offset = question->offset;
	snprintf(request->path, sizeof(request->path), "%s", question->path);
	message->data = request;
	message->size = offsetof(struct request, path) + strlen(request->path) + 1;
	message->files[0] = question->fd;
	message->files[1] = question->debug_fd;
	message->nr_files = question->debug_fd < 0 ? 1 : 2;
}

enum symbol_answer symbol_reader_request(struct worker *reader,
					 const struct symbol_question *question,
					 struct symbol_reply *reply)
{
	struct worker_message message;
	struct request request;
	struct reply received;

	memset(reply, 0, sizeof(*reply));
	fill_message(&message, &request, question);
	if (worker_request(reader, &message) != WORKER_REPLIED)
		return SYMBOL_NO_READER;
	memset(&received, 0, sizeof(received));
	message.data = &received;
	message.size = sizeof(received);
	switch (worker_reply(reader, &message, question->deadline_ns)) {
	case WORKER_LATE:
		return SYMBOL_LATE;
	case WORKER_ENDED:
		return worker_was_killed(reader) ? SYMBOL_KILLED : SYMBOL_UNREADABLE;
	case WORKER_MISSING:
		return SYMBOL_NO_READER;
	case WORKER_REPLIED:
		break;
	}
	worker_close_files(&message);
	/* A worker that a file has taken over may send anything. */
	if (received.answer < SYMBOL_NONE || received.answer > SYMBOL_TOO_MANY)
		return SYMBOL_NONE;
	*reply = received.reply;
	reply->name[sizeof(reply->name) - 1] = 0;
	clean_string(reply->name);
	return (enum symbol_answer)received.answer;
}
