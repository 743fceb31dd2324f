// SPDX-License-Identifier: GPL-2.0-only
/*
 * Names of functions, from the symbols of ELF files, which symbol_reader.c reads.
 *
 * The hard case is time. Any user's files are read, and debug files from the network may never
 * come. So each profile, each user within a profile and each file has a limit of time. What has no
 * name then is an address in this profile, and the next profile goes on from there, since names
 * are cached. Profiles take turns at the reader, a name each.
 */
#include "daemon/symbols/symbols.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/arithmetic.h"
#include "daemon/shared/hash.h"
#include "daemon/shared/turns.h"
#include "daemon/symbols/build_id.h"
#include "daemon/symbols/debug_fetcher.h"
#include "daemon/symbols/symbol_file.h"
#include "daemon/symbols/symbol_reader.h"
#include "daemon/symbols/worker.h"

#define SECOND_NS      UINT64_C(1000000000)
#define CACHE_MAX      (3u << 16)
#define CACHE_BYTES    (32u << 20)
#define FILES_MAX      8192 /* that have used time of the reader */
#define BINARY_SECONDS 2u   /* of a file, for all its names */
#define BINARY_NS      (BINARY_SECONDS * SECOND_NS)
#define USER_NS	       SECOND_NS /* of a user but root, in one profile */
#define PROFILE_NS     (10 * SECOND_NS)
#define NAME_NS	       (SECOND_NS / 100) /* a name takes less: it does not count for the file */
#define FAILED_MAX     3		 /* times in a row */

struct place {
	uint64_t file;
	uint64_t offset;
};

struct cached {
	UT_hash_handle hh;
	struct place place;
	char name[]; /* "": no symbol covers the offset */
};

struct file_state {
	UT_hash_handle hh;
	uint64_t id;
	uint64_t used_ns;    /* of the reader's processor, less what was given back */
	uint64_t used_at_ns; /* when that was counted last */
	unsigned int failed; /* times in a row: other programs may have been at fault */
	bool unreadable;
	bool fetched;  /* no server has its debug file */
	bool was_late; /* its debug file did not come in time once */
};

struct naming_user {
	uid_t user;
	uint64_t used_ns;
};

struct symbols {
	struct worker *reader;
	struct worker *fetcher; /* NULL: no server is used */
	unsigned int debuginfod_seconds;
	struct turns reading, fetching; /* at the workers */
	atomic_ulong nr_unreadable, nr_late;
	pthread_mutex_t lock; /* guards what follows */
	size_t cached_bytes;
	struct cached *cache; /* the oldest first */
	struct file_state *files;
};

struct symbols *symbols_new(unsigned int debuginfod_seconds)
{
	struct symbols *symbols = xcalloc(1, sizeof(*symbols));

	symbols->debuginfod_seconds = debuginfod_seconds;
	symbols->reader = symbol_reader_new();
	if (debuginfod_seconds)
		symbols->fetcher = debug_fetcher_new();
	turns_begin(&symbols->reading, 1);
	turns_begin(&symbols->fetching, 1);
	pthread_mutex_init(&symbols->lock, NULL);
	return symbols;
}

void symbols_free(struct symbols *symbols)
{
	if (!symbols)
		return;
	worker_free(symbols->reader);
	worker_free(symbols->fetcher);
	turns_end(&symbols->reading);
	turns_end(&symbols->fetching);
	HASH_FREE(symbols->cache);
	HASH_FREE(symbols->files);
	pthread_mutex_destroy(&symbols->lock);
	free(symbols);
}

unsigned long symbols_unreadable(const struct symbols *symbols)
{
	return atomic_load(&symbols->nr_unreadable);
}

unsigned long symbols_late(const struct symbols *symbols)
{
	return atomic_load(&symbols->nr_late);
}

/* --- the cache ---------------------------------------------------------------------- */

static void drop_oldest_locked(struct symbols *symbols)
{
	struct cached *oldest = symbols->cache;

	symbols->cached_bytes -= sizeof(*oldest) + strlen(oldest->name) + 1;
	HASH_DELETE(hh, symbols->cache, oldest);
	free(oldest);
}

static void cache_add(struct symbols *symbols, const struct place *place, const char *name)
{
	size_t size = sizeof(struct cached) + strlen(name) + 1;
	struct cached *cached;

	pthread_mutex_lock(&symbols->lock);
	HASH_FIND(hh, symbols->cache, place, sizeof(*place), cached);
	if (cached)
		goto end;
	while (symbols->cache && (HASH_COUNT(symbols->cache) >= CACHE_MAX ||
				  symbols->cached_bytes + size > CACHE_BYTES))
		drop_oldest_locked(symbols);
	cached = xcalloc(1, size);
	cached->place = *place;
	strcpy(cached->name, name);
	HASH_ADD(hh, symbols->cache, place, sizeof(cached->place), cached);
	symbols->cached_bytes += size;
end:
	pthread_mutex_unlock(&symbols->lock);
}

/* A copy in @name; NULL if there is no name. False: nothing is cached. */
static bool cache_find(struct symbols *symbols, const struct place *place, char **name)
{
	struct cached *cached;

	pthread_mutex_lock(&symbols->lock);
	HASH_FIND(hh, symbols->cache, place, sizeof(*place), cached);
	*name = cached && *cached->name ? xstrdup(cached->name) : NULL;
	pthread_mutex_unlock(&symbols->lock);
	return cached;
}

/* --- what files and users have used --------------------------------------------------- */

static struct file_state *file_locked(struct symbols *symbols, uint64_t id)
{
	struct file_state *file, *oldest = symbols->files;

	HASH_FIND(hh, symbols->files, &id, sizeof(id), file);
	if (file)
		return file;
	if (HASH_COUNT(symbols->files) >= FILES_MAX) {
		HASH_DELETE(hh, symbols->files, oldest);
		free(oldest);
	}
	file = xcalloc(1, sizeof(*file));
	file->id = id;
	HASH_ADD(hh, symbols->files, id, sizeof(file->id), file);
	return file;
}

static void set_unreadable_locked(struct symbols *symbols, struct file_state *file)
{
	file->unreadable = true;
	atomic_fetch_add(&symbols->nr_unreadable, 1);
}

static uint64_t *user_time(struct naming *naming, uid_t uid)
{
	unsigned int i;

	for (i = 0; i < naming->nr_users; i++)
		if (naming->users[i].user == uid)
			return &naming->users[i].used_ns;
	naming->users =
		xgrow(naming->users, naming->nr_users, &naming->users_room, sizeof(*naming->users));
	naming->users[naming->nr_users] = (struct naming_user){ .user = uid };
	return &naming->users[naming->nr_users++].used_ns;
}

static bool is_over(struct naming *naming, const struct symbol_source *source)
{
	return clock_monotonic_ns() >= naming->deadline_ns ||
	       (source->user && *user_time(naming, source->user) >= USER_NS);
}

/* --- one name -------------------------------------------------------------------------- */

static bool is_readable(struct symbols *symbols, const struct symbol_source *source)
{
	bool readable;

	pthread_mutex_lock(&symbols->lock);
	readable = !file_locked(symbols, source->id)->unreadable;
	pthread_mutex_unlock(&symbols->lock);
	return readable;
}

static void say_unreadable(const struct symbols *symbols, const char *path,
			   enum symbol_answer answer)
{
	switch (answer) {
	case SYMBOL_TOO_MANY:
		say("%s: it has more than %u symbols: it has no names", path, SYMBOLS_MAX);
		break;
	case SYMBOL_UNREADABLE:
	case SYMBOL_KILLED:
		say("%s: its symbols ended their reader (%s): it has no names", path,
		    worker_end_text(symbols->reader));
		break;
	default:
		say("%s: its symbols took longer than %u s to read: it has no more names", path,
		    BINARY_SECONDS);
	}
}

/* A file may take its time again and again, but no more than that in half a minute. */
static void use_time(struct file_state *file, uint64_t used_ns)
{
	uint64_t now = clock_monotonic_ns(), back = (now - file->used_at_ns) / 15;

	file->used_ns -= min(file->used_ns, back);
	file->used_at_ns = now;
	file->used_ns += used_ns;
}

/*
 * True: no name of the file is looked up any more. Root's files have no limit of time in all: other
 * users can make habd open them again and again.
 */
static bool is_at_end(struct file_state *file, const struct symbol_source *source,
		      enum symbol_answer answer, uint64_t used_ns)
{
	switch (answer) {
	case SYMBOL_NONE:
	case SYMBOL_FOUND:
		file->failed = 0;
		if (used_ns > NAME_NS)
			use_time(file, used_ns);
		return source->user && file->used_ns >= BINARY_NS;
	case SYMBOL_LATE:
	case SYMBOL_KILLED:
		return ++file->failed == FAILED_MAX;
	case SYMBOL_NO_READER:
		return false;
	default:
		return true;
	}
}

static void count(struct symbols *symbols, const struct symbol_source *source,
		  enum symbol_answer answer, uint64_t used_ns)
{
	struct file_state *file;
	bool at_end;

	pthread_mutex_lock(&symbols->lock);
	file = file_locked(symbols, source->id);
	at_end = is_at_end(file, source, answer, used_ns);
	if (at_end)
		set_unreadable_locked(symbols, file);
	pthread_mutex_unlock(&symbols->lock);
	if (at_end)
		say_unreadable(symbols, source->path, answer);
}

static enum symbol_answer request(struct naming *naming, const struct symbol_source *source,
				  uint64_t offset, int debug_fd, struct symbol_reply *reply)
{
	struct symbol_question question = {
		.file = source->id,
		.fd = source->fd,
		.debug_fd = debug_fd,
		.path = source->path,
		.offset = offset,
	};
	struct symbols *symbols = naming->symbols;
	enum symbol_answer answer = SYMBOL_UNREADABLE;
	struct turn turn;
	uint64_t begin;

	if (!turns_take(&symbols->reading, &turn, 0, naming->deadline_ns))
		return SYMBOL_NO_READER;
	if (is_readable(symbols, source)) {
		begin = clock_monotonic_ns();
		question.deadline_ns = begin + BINARY_NS;
		answer = symbol_reader_request(symbols->reader, &question, reply);
		count(symbols, source, answer, reply->used_ns);
		*user_time(naming, source->user) += clock_monotonic_ns() - begin;
	}
	turns_give(&symbols->reading, &turn);
	return answer;
}

/* The answer of the servers, from the file's state if there is one. */
static enum debug_answer fetch(struct naming *naming, const struct symbol_source *source, int *fd)
{
	struct symbols *symbols = naming->symbols;
	uint64_t begin = clock_monotonic_ns(), used;
	enum debug_answer answer = DEBUG_LATE;
	struct file_state *file;
	struct turn turn;
	bool fetched;

	pthread_mutex_lock(&symbols->lock);
	fetched = file_locked(symbols, source->id)->fetched;
	pthread_mutex_unlock(&symbols->lock);
	if (fetched || !source->build_id_length)
		return DEBUG_NONE;
	if (begin < naming->network_deadline_ns &&
	    turns_take(&symbols->fetching, &turn, 0, naming->network_deadline_ns)) {
		answer = debug_fetcher_request(symbols->fetcher, source->build_id,
					       source->build_id_length, naming->network_deadline_ns,
					       fd);
		turns_give(&symbols->fetching, &turn);
		if (answer == DEBUG_LATE)
			say_verbose("%s: no debug file came in %u s: it has no names for now",
				    source->path, symbols->debuginfod_seconds);
	}
	/* The wait has a limit of its own. */
	used = clock_monotonic_ns() - begin;
	naming->deadline_ns += used;
	*user_time(naming, source->user) += used;
	pthread_mutex_lock(&symbols->lock);
	file = file_locked(symbols, source->id);
	if (answer == DEBUG_LATE)
		file->was_late = true;
	/* The library caches a failure: it may be the earlier wait's. */
	else if (answer == DEBUG_NONE && file->was_late)
		answer = DEBUG_LATE;
	else
		file->fetched = answer == DEBUG_NONE;
	pthread_mutex_unlock(&symbols->lock);
	return answer;
}

/* False: there is no answer to cache, and *late says why. */
static bool look_up(struct naming *naming, const struct symbol_source *source, uint64_t offset,
		    struct symbol_reply *reply, bool *late)
{
	int debug_fd = build_id_open_debug(source->build_id, source->build_id_length);
	enum debug_answer fetched = DEBUG_NONE;
	enum symbol_answer answer;

	answer = request(naming, source, offset, debug_fd, reply);
	if (debug_fd >= 0)
		close(debug_fd);
	if (answer <= SYMBOL_FOUND && reply->needs_debug && naming->network_deadline_ns) {
		fetched = fetch(naming, source, &debug_fd);
		if (fetched == DEBUG_FOUND) {
			answer = request(naming, source, offset, debug_fd, reply);
			close(debug_fd);
		}
	}
	*late = answer >= SYMBOL_LATE || (answer == SYMBOL_NONE && fetched == DEBUG_LATE);
	return answer <= SYMBOL_FOUND && !*late;
}

/* --- the names of a profile -------------------------------------------------------------- */

void naming_begin(struct naming *naming, struct symbols *symbols)
{
	uint64_t now = clock_monotonic_ns();

	memset(naming, 0, sizeof(*naming));
	naming->symbols = symbols;
	naming->deadline_ns = now + PROFILE_NS;
	if (symbols->fetcher)
		naming->network_deadline_ns = now + symbols->debuginfod_seconds * SECOND_NS;
}

void naming_end(struct naming *naming)
{
	atomic_fetch_add(&naming->symbols->nr_late, naming->late);
	free(naming->users);
}

char *naming_find(struct naming *naming, const struct symbol_source *source, uint64_t offset)
{
	struct place place = { source->id, offset };
	struct symbol_reply reply;
	bool late = true;
	char *name;

	if (source->fd < 0)
		return NULL;
	if (cache_find(naming->symbols, &place, &name))
		return name;
	if (!is_readable(naming->symbols, source))
		return NULL;
	if (!is_over(naming, source) && look_up(naming, source, offset, &reply, &late)) {
		/* What has no name now may get one, if the file grows. */
		if (*reply.name || !reply.may_grow)
			cache_add(naming->symbols, &place, reply.name);
		return *reply.name ? xstrdup(reply.name) : NULL;
	}
	naming->late += late;
	return NULL;
}
