// SPDX-License-Identifier: GPL-2.0-only
/*
 * Names of functions, from the symbols of ELF files, which symbol_reader.c reads.
 *
 * The hard case is debug files from the network: they may take as long as somebody wants who
 * is not here. There is a time for all names of a profile, and what was not found in it is
 * looked for again for the next profile.
 *
 * Bounded: the names found are cached, and the cache starts anew when it is full. A file that
 * ended its reader is not asked again.
 */
#include "daemon/symbols/symbols.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/symbols/binaries.h"
#include "daemon/symbols/symbol_reader.h"
#include "daemon/shared/util.h"

#define CACHE_MAX   (1u << 18)	/* a power of two */
#define CACHE_BYTES (32u << 20) /* of names */

struct cached {
	uint64_t key;
	char *name; /* "": known to have none; NULL: free place */
};

struct symbols {
	struct symbol_reader *reader;
	unsigned int debuginfod_seconds;
	uint64_t deadline_ns;
	bool late; /* a file of this profile was */
	bool unreadable[BINARIES_MAX];
	atomic_ulong nr_unreadable;
	unsigned int nr_cached;
	size_t cached_bytes;
	struct cached cache[CACHE_MAX];
};

struct symbols *symbols_new(unsigned int debuginfod_seconds)
{
	struct symbols *symbols = xcalloc(1, sizeof(*symbols));

	symbols->debuginfod_seconds = debuginfod_seconds;
	symbols->reader = symbol_reader_new();
	return symbols;
}

static void cache_empty(struct symbols *symbols)
{
	unsigned int i;

	for (i = 0; i < CACHE_MAX; i++)
		if (symbols->cache[i].name)
			free(symbols->cache[i].name);
	memset(symbols->cache, 0, sizeof(symbols->cache));
	symbols->nr_cached = 0;
	symbols->cached_bytes = 0;
}

void symbols_free(struct symbols *symbols)
{
	if (!symbols)
		return;
	symbol_reader_free(symbols->reader);
	cache_empty(symbols);
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

static struct cached *cache_place(struct symbols *symbols, uint64_t key)
{
	struct cached *place;
	unsigned int i;

	/* Leaves room, so that every search ends at a free place. */
	if (symbols->nr_cached > CACHE_MAX / 4 * 3 || symbols->cached_bytes > CACHE_BYTES)
		cache_empty(symbols);
	for (i = (unsigned int)hash_number(key);; i++) {
		place = &symbols->cache[i & (CACHE_MAX - 1)];
		if (!place->name || place->key == key)
			return place;
	}
}

/* False: there is no answer to be remembered. */
static bool look_up(struct symbols *symbols, uint64_t key, int fd, const char *path, char *name)
{
	unsigned int binary = FRAME_BINARY(key);

	*name = 0;
	if (symbols->unreadable[binary])
		return false;
	switch (symbol_reader_ask(symbols->reader, binary, fd, path, FRAME_OFFSET(key),
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
	struct cached *place;

	if (fd < 0)
		return NULL;
	place = cache_place(symbols, key);
	if (!place->name) {
		if (!look_up(symbols, key, fd, path, name))
			return NULL;
		place->key = key;
		place->name = xstrdup(name);
		symbols->nr_cached++;
		symbols->cached_bytes += strlen(place->name) + 1;
	}
	return *place->name ? place->name : NULL;
}
