// SPDX-License-Identifier: GPL-2.0-only
/*
 * Names of functions, from the symbols of ELF files, which symbol_reader.c reads.
 *
 * The hard case is debug files from the network, which may never come. All names of a profile
 * share one time limit, and the next profile looks again for what was not found in it.
 *
 * The names are cached, within limits. A file that ended its reader is not read again.
 */
#include "daemon/symbols/symbols.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/symbols/binaries.h"
#include "daemon/symbols/symbol_reader.h"
#include "daemon/shared/hash.h"

#define CACHE_MAX   (3u << 16)
#define CACHE_BYTES (32u << 20)

struct cached {
	UT_hash_handle hh;
	uint64_t key; /* a FRAME() */
	char name[];  /* "": no symbol covers the offset */
};

struct symbols {
	struct symbol_reader *reader;
	unsigned int debuginfod_seconds;
	uint64_t deadline_ns;
	bool late; /* a debug file of this profile did not come in time */
	bool unreadable[BINARIES_MAX];
	atomic_ulong nr_unreadable;
	size_t cached_bytes;
	struct cached *cache; /* the oldest first */
};

struct symbols *symbols_new(unsigned int debuginfod_seconds)
{
	struct symbols *symbols = xcalloc(1, sizeof(*symbols));

	symbols->debuginfod_seconds = debuginfod_seconds;
	symbols->reader = symbol_reader_new();
	return symbols;
}

static void drop_oldest(struct symbols *symbols)
{
	struct cached *oldest = symbols->cache;

	symbols->cached_bytes -= sizeof(*oldest) + strlen(oldest->name) + 1;
	HASH_DELETE(hh, symbols->cache, oldest);
	free(oldest);
}

void symbols_free(struct symbols *symbols)
{
	if (!symbols)
		return;
	symbol_reader_free(symbols->reader);
	HASH_FREE(symbols->cache);
	free(symbols);
}

unsigned long symbols_unreadable(const struct symbols *symbols)
{
	return atomic_load(&symbols->nr_unreadable);
}

void symbols_begin(struct symbols *symbols)
{
	symbols->late = false;
	symbols->deadline_ns = 0;
	if (symbols->debuginfod_seconds)
		symbols->deadline_ns =
			clock_monotonic_ns() + symbols->debuginfod_seconds * UINT64_C(1000000000);
}

static struct cached *cache_add(struct symbols *symbols, uint64_t key, const char *name)
{
	size_t size = sizeof(struct cached) + strlen(name) + 1;
	struct cached *cached = xcalloc(1, size);

	while (symbols->cache && (HASH_COUNT(symbols->cache) >= CACHE_MAX ||
				  symbols->cached_bytes + size > CACHE_BYTES))
		drop_oldest(symbols);
	cached->key = key;
	strcpy(cached->name, name);
	HASH_ADD(hh, symbols->cache, key, sizeof(cached->key), cached);
	symbols->cached_bytes += size;
	return cached;
}

/* False: there is no answer to cache. */
static bool look_up(struct symbols *symbols, uint64_t key, int fd, const char *path, char *name)
{
	unsigned int binary = FRAME_BINARY(key);

	*name = 0;
	if (symbols->unreadable[binary])
		return false;
	switch (symbol_reader_request(symbols->reader, binary, fd, path, FRAME_OFFSET(key),
				      symbols->deadline_ns, name)) {
	case SYMBOL_NONE:
	case SYMBOL_FOUND:
		return true;
	case SYMBOL_LATE:
		if (!symbols->late)
			say_verbose("%s: no debug file came in %u s: it has no names for now", path,
				    symbols->debuginfod_seconds);
		symbols->late = true;
		return false;
	case SYMBOL_UNREADABLE:
		symbols->unreadable[binary] = true;
		atomic_fetch_add(&symbols->nr_unreadable, 1);
		break;
	}
	return false;
}

const char *symbols_find(struct symbols *symbols, uint64_t key, int fd, const char *path)
{
	char name[SYMBOL_NAME_MAX + 1];
	struct cached *cached;

	if (fd < 0)
		return NULL;
	HASH_FIND(hh, symbols->cache, &key, sizeof(key), cached);
	if (!cached) {
		if (!look_up(symbols, key, fd, path, name))
			return NULL;
		cached = cache_add(symbols, key, name);
	}
	return *cached->name ? cached->name : NULL;
}
