// SPDX-License-Identifier: GPL-2.0-only
/*
 * Reads /proc/PID/maps and opens the mapped files.
 *
 * The hard case is a file whose system answers when its owner likes: opening it, reading it and
 * even closing it may wait without end. So all that is done in a worker, which has a deadline. habd
 * gets descriptors only of files that this machine's own file systems keep; of other files it gets
 * the names.
 *
 * Files are opened through /proc/PID/map_files, which works across mount namespaces and for deleted
 * files. Each is first opened with O_PATH, so that no device or pipe is opened by mistake.
 *
 * A process that has ended may have sent the text of its maps. It can name any file there: so one
 * counts only if its user can read it anyway.
 */
#include "daemon/symbols/maps_reader.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/arithmetic.h"
#include "daemon/shared/util.h"
#include "daemon/symbols/mounts.h"
#include "daemon/symbols/worker.h"

#define MESSAGE_BYTES 65536u
#define NAME_BYTES    4096u
#define ENTRIES_MAX   (MAPPINGS_MAX + 2) /* memory and perf map, too */
#define READER_MEMORY ((rlim_t)1 << 28)
#define REPLY_BYTES   (8u << 20) /* of all names; later mappings are left out */

struct maps_reader {
	struct worker *worker;
};

struct request {
	struct worker_head head;
	uint32_t pid;
	uid_t user;
	bool has_ended;
	uint64_t since_ns;
	uint32_t length;
	char text[MAPS_TEXT_MAX];
};

/* A message of the reply has entries, each a wire_entry and its name, rounded up to 8 bytes. */
struct reply {
	struct worker_head head;
	uint32_t nr_entries;
	uint32_t last; /* no message follows */
	_Alignas(8) unsigned char entries[MESSAGE_BYTES];
};

struct wire_entry {
	enum maps_kind kind;
	uint64_t start;
	uint64_t end;
	uint64_t offset;
	struct binary_file file; /* fd: 0 if a descriptor comes with the message, else -1 */
	uint32_t name_size;	 /* with its NUL */
};

static size_t wire_size(size_t name_size)
{
	return (sizeof(struct wire_entry) + name_size + 7) / 8 * 8;
}

/* --- the worker ----------------------------------------------------------------------- */

struct reading {
	int socket;
	uint32_t pid;
	uid_t user;
	bool by_text; /* the process has ended */
	struct mounts mounts;
	struct stat program;
	char perf_map[64];
	struct reply reply;
	struct worker_message message;
	size_t used; /* of the entries of this message */
	size_t sent; /* of all messages before */
	unsigned int count;
};

static int open_mapped(uint32_t pid, const struct maps_line *line)
{
	char *path;
	int fd;

	path = xformat("/proc/%u/map_files/%" PRIx64 "-%" PRIx64, pid, line->start, line->end);
	fd = maps_open(path, line->inode);
	free(path);
	if (fd >= 0)
		return fd;
	/* map_files needs CAP_CHECKPOINT_RESTORE; a path may do without. */
	path = xformat("/proc/%u/root%s", pid, line->path);
	fd = maps_open(path, line->inode);
	free(path);
	return fd;
}

/* True if any user may search the folders of the path. */
static bool is_reachable(char *path)
{
	struct stat status;
	char *end;

	for (end = strchr(path + 1, '/'); end; end = strchr(end + 1, '/')) {
		*end = 0;
		if (stat(path, &status) || !(status.st_mode & S_IXOTH))
			return false;
		*end = '/';
	}
	return true;
}

/* The path is the kernel's, so that no link leads elsewhere. */
static bool may_be_read(int fd, uid_t user)
{
	char link[64], path[PATH_MAX];
	struct stat status;
	ssize_t length;

	if (fstat(fd, &status))
		return false;
	if (status.st_uid == user)
		return true;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	length = readlink(link, path, sizeof(path) - 1);
	path[length > 0 ? length : 0] = 0;
	return length > 0 && status.st_mode & S_IROTH && is_reachable(path);
}

static int open_by_text(const struct maps_line *line, uid_t user)
{
	int fd = maps_open(line->path, line->inode);

	if (fd < 0 || may_be_read(fd, user))
		return fd;
	close(fd);
	return -1;
}

/*
 * Describes the file of a mapping. -1 if it has none, or none that may be read; the name is then
 * all there is to know.
 */
static int describe_file(struct reading *reading, const struct maps_line *line,
			 struct binary_file *file, const char **name)
{
	struct stat status;
	enum place place;
	int fd;

	if (!maps_line_has_file(line, name))
		return -1;
	fd = reading->by_text ? open_by_text(line, reading->user) : open_mapped(reading->pid, line);
	if (fd < 0)
		return -1;
	place = mounts_place(&reading->mounts, fd);
	if (place == PLACE_OTHER || fstat(fd, &status))
		goto unread;
	maps_describe(&fd, &status, file, name);
	file->roots_path = reading->mounts.are_roots;
	file->trusted = place == PLACE_TRUSTED && !status.st_uid &&
			!(status.st_mode & (S_IWGRP | S_IWOTH));
	file->executable = status.st_ino == reading->program.st_ino &&
			   status.st_dev == reading->program.st_dev;
	return fd;
unread:
	close(fd);
	return -1;
}

/* The perf map of the process, for code that was made at run time. */
static int find_perf_map(struct reading *reading, struct binary_file *file, const char **name)
{
	struct stat status;
	int fd;

	fd = maps_open_perf_map(reading->pid, &status, reading->perf_map,
				sizeof(reading->perf_map));
	if (fd < 0)
		return -1;
	if (mounts_place(&reading->mounts, fd) == PLACE_OTHER) {
		close(fd);
		return -1;
	}
	maps_describe_perf_map(&status, file);
	*name = reading->perf_map;
	return fd;
}

static bool send_part(struct reading *reading, bool last)
{
	bool sent;

	reading->reply.last = last;
	reading->message.data = &reading->reply;
	reading->message.size = offsetof(struct reply, entries) + reading->used;
	sent = worker_send(reading->socket, &reading->message);
	worker_close_files(&reading->message);
	reading->sent += reading->used;
	reading->used = 0;
	reading->reply.nr_entries = 0;
	return sent;
}

/* Takes @fd over. False if there is no room for more. */
static bool add_entry(struct reading *reading, struct wire_entry *entry, const char *name, int fd)
{
	size_t size;

	entry->file.fd = fd >= 0 ? 0 : -1;
	entry->name_size = (uint32_t)strnlen(name, NAME_BYTES - 1) + 1;
	size = wire_size(entry->name_size);
	if ((reading->used + size > MESSAGE_BYTES ||
	     reading->message.nr_files == WORKER_FILES_MAX) &&
	    !send_part(reading, false)) {
		if (fd >= 0)
			close(fd);
		return false;
	}
	memcpy(reading->reply.entries + reading->used, entry, sizeof(*entry));
	memcpy(reading->reply.entries + reading->used + sizeof(*entry), name, entry->name_size - 1);
	reading->reply.entries[reading->used + sizeof(*entry) + entry->name_size - 1] = 0;
	reading->used += size;
	reading->reply.nr_entries++;
	if (fd >= 0)
		reading->message.files[reading->message.nr_files++] = fd;
	return true;
}

/* False if there is no room for more. */
static bool add_line(struct reading *reading, const struct maps_line *line)
{
	struct wire_entry entry = { .start = line->start,
				    .end = line->end,
				    .offset = line->inode ? line->offset : 0 };
	const char *name;
	int fd;

	fd = describe_file(reading, line, &entry.file, &name);
	if (fd < 0 && !strcmp(name, "[jit]")) {
		entry.offset = line->start;
		fd = reading->by_text ? -1 : find_perf_map(reading, &entry.file, &name);
	}
	return add_entry(reading, &entry, name, fd) && ++reading->count < MAPPINGS_MAX &&
	       reading->sent < REPLY_BYTES;
}

static void add_memory(struct reading *reading)
{
	struct wire_entry entry = { .kind = MAPS_MEMORY };
	int fd;

	if (maps_open_memory(reading->pid, &fd))
		add_entry(reading, &entry, "", fd);
}

static void add_late_perf_map(struct reading *reading, const struct request *request)
{
	struct wire_entry entry = { .kind = MAPS_PERF_MAP };
	struct stat status;
	struct mounts mounts;
	int fd = maps_open_late_perf_map(request->pid, request->user, request->since_ns, &status,
					 reading->perf_map, sizeof(reading->perf_map));

	if (fd < 0)
		return;
	mounts_begin(&mounts, (uint32_t)getpid());
	if (mounts_place(&mounts, fd) == PLACE_OTHER) {
		close(fd);
		return;
	}
	maps_describe_perf_map(&status, &entry.file);
	add_entry(reading, &entry, reading->perf_map, fd);
}

/* The maps end early if the process does. */
static bool has_ended(FILE *file)
{
	rewind(file);
	return getc(file) == EOF;
}

/* Nothing was sent yet. @text is changed. */
static void read_text(struct reading *reading, char *text)
{
	struct maps_line line;
	char *next;

	worker_close_files(&reading->message);
	reading->reply.nr_entries = 0;
	reading->used = reading->count = 0;
	/* The paths are looked up among this process's mounts. */
	reading->by_text = true;
	mounts_begin(&reading->mounts, (uint32_t)getpid());
	for (; text && *text; text = next) {
		next = strchr(text, '\n');
		if (next)
			*next++ = 0;
		if (maps_line_parse(text, &line) && line.executable && !add_line(reading, &line))
			break;
	}
}

static bool read_maps(struct reading *reading, struct request *request)
{
	struct maps_line line;
	char path[32], *text = NULL;
	bool ended = true;
	size_t room = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%u/maps", reading->pid);
	/* Another process may have its number. */
	file = request->has_ended ? NULL : fopen(path, "re");
	if (file) {
		mounts_begin(&reading->mounts, reading->pid);
		snprintf(path, sizeof(path), "/proc/%u/exe", reading->pid);
		if (stat(path, &reading->program))
			memset(&reading->program, 0, sizeof(reading->program));
		while (getline(&text, &room, file) > 0)
			if (maps_line_parse(text, &line) && line.executable &&
			    !add_line(reading, &line))
				break;
		ended = has_ended(file);
		free(text);
		fclose(file);
	}
	if (ended && !reading->sent && request->length && request->length <= MAPS_TEXT_MAX) {
		request->text[request->length - 1] = 0;
		read_text(reading, request->text);
	} else if (request->length) {
		add_memory(reading);
	}
	if (request->has_ended)
		add_late_perf_map(reading, request);
	return send_part(reading, true);
}

static void work(int socket)
{
	static struct reading reading;
	static struct request request;
	struct worker_message message = { .data = &request };

	do {
		message.size = sizeof(request);
		if (!worker_receive(socket, &message))
			return;
		worker_close_files(&message);
		memset(&reading, 0, sizeof(reading));
		reading.socket = socket;
		reading.pid = request.pid;
		reading.user = request.user;
		reading.reply.head.number = request.head.number;
	} while (read_maps(&reading, &request));
}

/* --- habd's side ---------------------------------------------------------------------- */

struct maps_reader *maps_reader_new(void)
{
	static const cap_value_t capabilities[] = { CAP_SYS_PTRACE, CAP_DAC_READ_SEARCH,
						    CAP_CHECKPOINT_RESTORE };
	static const struct worker_kind kind = { .name = "habd-maps",
						 .work = work,
						 .capabilities = capabilities,
						 .nr_capabilities = ARRAY_SIZE(capabilities),
						 .memory = READER_MEMORY,
						 .opens_files = true };
	struct maps_reader *reader = xcalloc(1, sizeof(*reader));

	reader->worker = worker_new(&kind);
	if (reader->worker)
		return reader;
	free(reader);
	return NULL;
}

void maps_reader_free(struct maps_reader *reader)
{
	if (!reader)
		return;
	worker_free(reader->worker);
	free(reader);
}

bool maps_reader_is_ready(struct maps_reader *reader)
{
	return worker_is_ready(reader->worker);
}

uint64_t maps_reader_delay_ns(const struct maps_reader *reader)
{
	return worker_delay_ns(reader->worker);
}

/* Takes the entries of a message over, with its descriptors. False if it is malformed. */
static bool take_part(struct maps *maps, const struct reply *reply, struct worker_message *message)
{
	size_t at = 0, size = message->size - offsetof(struct reply, entries);
	const struct wire_entry *from;
	struct maps_entry *entry;
	unsigned int i, file = 0;

	for (i = 0; i < reply->nr_entries; i++) {
		from = (const void *)(reply->entries + at);
		if (size - at < sizeof(*from) || !from->name_size || from->name_size > NAME_BYTES ||
		    size - at < wire_size(from->name_size) || maps->nr == ENTRIES_MAX)
			break;
		maps->entries = xgrow(maps->entries, maps->nr, &maps->room, sizeof(*maps->entries));
		entry = &maps->entries[maps->nr++];
		*entry = (struct maps_entry){ .kind = from->kind,
					      .start = from->start,
					      .end = from->end,
					      .offset = from->offset,
					      .file = from->file };
		entry->name = xstrndup((const char *)(from + 1), from->name_size - 1);
		if (!from->file.fd && file < message->nr_files)
			entry->file.fd = message->files[file++];
		else
			entry->file.fd = -1;
		at += wire_size(from->name_size);
	}
	while (file < message->nr_files)
		close(message->files[file++]);
	message->nr_files = 0;
	return i == reply->nr_entries;
}

enum maps_result maps_reader_read(struct maps_reader *reader, const struct maps_question *question,
				  struct maps *maps)
{
	const char *text = question->text;
	/* With the NUL. */
	size_t length = text ? min(strlen(text) + 1, (size_t)MAPS_TEXT_MAX) : 0;
	struct request *request = xcalloc(1, sizeof(*request));
	struct reply *reply = xcalloc(1, sizeof(*reply));
	struct worker_message out = { .data = request,
				      .size = offsetof(struct request, text) + length };
	struct worker_message in = { .data = reply };
	enum worker_result result;
	bool good = true;

	memset(maps, 0, sizeof(*maps));
	request->pid = question->pid;
	request->user = question->user;
	request->has_ended = question->has_ended;
	request->since_ns = question->since_ns;
	request->length = (uint32_t)length;
	if (length)
		memcpy(request->text, text, length);
	result = worker_request(reader->worker, &out);
	free(request);
	if (result != WORKER_REPLIED) {
		free(reply);
		return MAPS_NO_READER;
	}
	while (result == WORKER_REPLIED && good && !reply->last) {
		in.size = sizeof(*reply);
		result = worker_reply(reader->worker, &in, question->deadline_ns);
		if (result != WORKER_REPLIED)
			break;
		good = in.size >= offsetof(struct reply, entries) && take_part(maps, reply, &in);
		worker_close_files(&in);
	}
	free(reply);
	if (result == WORKER_REPLIED && good && maps->nr)
		return MAPS_READ;
	maps_end(maps);
	return result == WORKER_LATE ? MAPS_LATE : MAPS_UNREADABLE;
}
