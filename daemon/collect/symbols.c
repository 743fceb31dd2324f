// SPDX-License-Identifier: GPL-2.0-only
/*
 * Names of functions, from the symbols of ELF files, which symbol_reader.c reads.
 *
 * The names of a profile have a limit of time, since symbols can be many, and debug files from the
 * network may never come. What has no name then is an address in this profile, and the next profile
 * goes on from there, since names are cached.
 */
#include "daemon/collect/symbols.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/shared/hash.h"
#include "daemon/shared/util.h"
#include "daemon/shared/elf_reader.h"
#include "daemon/collect/debug_fetcher.h"
#include "daemon/collect/symbol_file.h"

#define SECOND_NS   UINT64_C(1000000000)
#define CACHE_MAX   (3u << 16)
#define CACHE_BYTES (32u << 20)
#define FILES_MAX   8192 /* of which something is known */
#define PROFILE_NS  (10 * SECOND_NS)

struct symbol_place {
	uint64_t file;
	uint64_t offset;
	uint64_t question; /* enum symbol_question */
};

struct cached {
	UT_hash_handle hh;
	struct symbol_place place;
	char text[]; /* "": there is none */
};

struct file_state {
	UT_hash_handle hh;
	uint64_t id;
	bool unreadable;
	bool fetched;  /* no server has its debug file */
	bool was_late; /* its debug file did not come in time once */
};

struct symbols {
	unsigned int debuginfod_seconds, lines_ms;
	bool beside;
	atomic_ulong nr_unreadable, nr_late;
	pthread_mutex_t lock; /* guards what follows */
	struct symbol_reader *reader;
	struct debug_fetcher *fetcher; /* NULL: no server is used */
	size_t cached_bytes;
	struct cached *cache; /* the oldest first */
	struct file_state *files;
};

struct symbols *symbols_new(unsigned int debuginfod_seconds, unsigned int lines_ms,
			    bool beside)
{
	struct symbols *symbols = xcalloc(1, sizeof(*symbols));

	symbols->debuginfod_seconds = debuginfod_seconds;
	symbols->lines_ms = lines_ms;
	symbols->beside = beside;
	symbols->reader = symbol_reader_new();
	if (debuginfod_seconds)
		symbols->fetcher = debug_fetcher_new();
	pthread_mutex_init(&symbols->lock, NULL);
	return symbols;
}

void symbols_free(struct symbols *symbols)
{
	if (!symbols)
		return;
	symbol_reader_free(symbols->reader);
	debug_fetcher_free(symbols->fetcher);
	HASH_FREE(symbols->cache);
	HASH_FREE(symbols->files);
	pthread_mutex_destroy(&symbols->lock);
	free(symbols);
}

void symbols_tidy(struct symbols *symbols, symbol_file_stays stays, void *context)
{
	/* Names are being read: the next time will do. */
	if (pthread_mutex_trylock(&symbols->lock))
		return;
	symbol_reader_tidy(symbols->reader, stays, context);
	pthread_mutex_unlock(&symbols->lock);
}

unsigned long symbols_unreadable(const struct symbols *symbols)
{
	return atomic_load(&symbols->nr_unreadable);
}

unsigned long symbols_late(const struct symbols *symbols)
{
	return atomic_load(&symbols->nr_late);
}

/* --- what is known already ------------------------------------------------------------ */

static void drop_oldest(struct symbols *symbols)
{
	struct cached *oldest = symbols->cache;

	symbols->cached_bytes -= sizeof(*oldest) + strlen(oldest->text) + 1;
	HASH_DELETE(hh, symbols->cache, oldest);
	free(oldest);
}

/* It is not in the cache. */
static void cache_add(struct symbols *symbols, const struct symbol_place *place, const char *text)
{
	size_t size = sizeof(struct cached) + strlen(text) + 1;
	struct cached *cached;

	while (symbols->cache && (HASH_COUNT(symbols->cache) >= CACHE_MAX ||
				  symbols->cached_bytes + size > CACHE_BYTES))
		drop_oldest(symbols);
	cached = xcalloc(1, size);
	cached->place = *place;
	strcpy(cached->text, text);
	HASH_ADD(hh, symbols->cache, place, sizeof(cached->place), cached);
	symbols->cached_bytes += size;
}

static struct file_state *file_get(struct symbols *symbols, uint64_t id)
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

/* --- one name -------------------------------------------------------------------------- */

static bool read_text(struct symbols *symbols, const struct symbol_source *source,
		      const struct symbol_place *place, int debug_fd, struct symbol_reply *reply)
{
	switch (symbol_reader_find(symbols->reader, source, place->offset,
				   (enum symbol_question)place->question, debug_fd, reply)) {
	case SYMBOL_ANSWERED:
		return true;
	case SYMBOL_TOO_MANY:
		say("%s: it has more than %u symbols: it has no names", source->path, SYMBOLS_MAX);
		break;
	case SYMBOL_CUT_OFF:
		say("%s: it was cut off while its symbols were read: it has no names",
		    source->path);
		break;
	}
	file_get(symbols, source->id)->unreadable = true;
	atomic_fetch_add(&symbols->nr_unreadable, 1);
	return false;
}

/* The answer of the servers, from the file's state if there is one. */
static enum debug_answer fetch(struct naming *naming, const struct symbol_source *source, int *fd)
{
	struct symbols *symbols = naming->symbols;
	struct file_state *file = file_get(symbols, source->id);
	uint64_t begin = clock_monotonic_ns();
	enum debug_answer answer = DEBUG_LATE;

	if (file->fetched || !source->build_id_length)
		return DEBUG_NONE;
	if (begin < naming->network_deadline_ns) {
		answer = debug_fetcher_request(symbols->fetcher, source->build_id,
					       source->build_id_length, naming->network_deadline_ns,
					       fd);
		if (answer == DEBUG_LATE)
			say_verbose("%s: no debug file came in %u s: it has no names for now",
				    source->path, symbols->debuginfod_seconds);
	}
	/* The wait has a limit of its own. */
	naming->deadline_ns += clock_monotonic_ns() - begin;
	/* The library caches a failure: it may be the earlier wait's. */
	if (answer == DEBUG_NONE && file->was_late)
		return DEBUG_LATE;
	file->was_late |= answer == DEBUG_LATE;
	file->fetched = answer == DEBUG_NONE;
	return answer;
}

/* False: there is no answer, and *late says why. */
static bool look_up(struct naming *naming, const struct symbol_source *source,
		    const struct symbol_place *place, struct symbol_reply *reply, bool *late)
{
	int debug_fd = build_id_open_debug(source->build_id, source->build_id_length);
	struct symbols *symbols = naming->symbols;
	enum debug_answer fetched = DEBUG_NONE;
	bool answered = read_text(symbols, source, place, debug_fd, reply);

	if (debug_fd >= 0)
		close(debug_fd);
	if (answered && reply->needs_debug && naming->network_deadline_ns) {
		fetched = fetch(naming, source, &debug_fd);
		if (fetched == DEBUG_FOUND) {
			free(reply->text);
			answered = read_text(symbols, source, place, debug_fd, reply);
			close(debug_fd);
		}
	}
	*late = answered && !reply->text && fetched == DEBUG_LATE;
	return answered && !*late;
}

static char *find_locked(struct naming *naming, const struct symbol_source *source,
			 const struct symbol_place *place)
{
	struct symbols *symbols = naming->symbols;
	struct symbol_reply reply;
	struct cached *cached;
	uint64_t deadline_ns = place->question == SYMBOL_LINES ? naming->lines_deadline_ns :
								  naming->deadline_ns;
	bool late = true;

	HASH_FIND(hh, symbols->cache, place, sizeof(*place), cached);
	if (cached)
		return *cached->text ? xstrdup(cached->text) : NULL;
	if (source->fd < 0 || file_get(symbols, source->id)->unreadable)
		return NULL;
	if (clock_monotonic_ns() < deadline_ns &&
	    look_up(naming, source, place, &reply, &late)) {
		/* What has no name now may get one, if the file grows. */
		if (reply.text || !reply.may_grow)
			cache_add(symbols, place, reply.text ? reply.text : "");
		return reply.text;
	}
	naming->late += late && place->question == SYMBOL_NAME;
	return NULL;
}

/* --- the names of a profile -------------------------------------------------------------- */

void naming_begin(struct naming *naming, struct symbols *symbols)
{
	uint64_t now = clock_monotonic_ns();

	memset(naming, 0, sizeof(*naming));
	naming->symbols = symbols;
	naming->deadline_ns = now + PROFILE_NS;
	naming->lines_deadline_ns = now + symbols->lines_ms * UINT64_C(1000000);
	if (symbols->fetcher)
		naming->network_deadline_ns = now + symbols->debuginfod_seconds * SECOND_NS;
}

void naming_end(struct naming *naming)
{
	atomic_fetch_add(&naming->symbols->nr_late, naming->late);
}

char *naming_find(struct naming *naming, const struct symbol_source *source, uint64_t offset,
		  enum symbol_question question)
{
	const struct symbol_place place = { source->id, offset, question };
	struct symbol_source from = *source;
	char *text;

	from.beside = naming->symbols->beside;
	pthread_mutex_lock(&naming->symbols->lock);
	text = find_locked(naming, &from, &place);
	pthread_mutex_unlock(&naming->symbols->lock);
	return text;
}
