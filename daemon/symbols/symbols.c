// SPDX-License-Identifier: GPL-2.0-only
/*
 * Names of functions, from .symtab, .dynsym or the separate debug file of an ELF
 * file, by way of libdwfl.
 *
 * The hard case is a stripped file: libdwfl then offers the nearest exported
 * symbol, which is some other function. A symbol counts only where its own size
 * covers the offset; there is no name otherwise. Debug files from the network may take
 * as long as somebody wants who is not here: there is a time for all names of a profile,
 * and what was not found in it is looked for again for the next profile.
 *
 * Bounded: the names found are cached, and the cache starts anew when it is full;
 * of the files, the ones asked for least recently are closed again.
 */
#include "symbols.h"

#include <elfutils/debuginfod.h>
#include <elfutils/libdwfl.h>
#include <fcntl.h>
#include <gelf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "binaries.h"
#include "demangle.h"
#include "util.h"

#define FILES_MAX      64
#define CACHE_MAX      (1u << 18)  /* a power of two */
#define CACHE_BYTES    (32u << 20) /* of names */
#define NAME_MAX_BYTES 1000u

struct elf_file {
	unsigned int binary;
	uint64_t used;
	Dwfl *dwfl; /* NULL: it cannot be read */
	Dwfl_Module *module;
	GElf_Addr bias;
	Elf *elf;
	bool late; /* time was up before its debug file was there */
};

struct cached {
	uint64_t key;
	char *name; /* "": known to have none; NULL: free place */
};

struct symbols {
	struct elf_file *files[FILES_MAX];
	uint64_t uses;
	unsigned int debuginfod_seconds;
	uint64_t deadline_ns;
	bool time_is_up;
	unsigned int nr_cached;
	size_t cached_bytes;
	struct cached cache[CACHE_MAX];
};

/* Where separate debug files are looked for: nowhere that a watched program chooses. */
static char *debug_path = (char *)"/usr/lib/debug";

static const Dwfl_Callbacks callbacks = {
	.find_elf = dwfl_build_id_find_elf,
	.find_debuginfo = dwfl_standard_find_debuginfo,
	.section_address = dwfl_offline_section_address,
	.debuginfo_path = &debug_path,
};

struct symbols *symbols_new(unsigned int debuginfod_seconds)
{
	struct symbols *symbols = xcalloc(1, sizeof(*symbols));

	symbols->debuginfod_seconds = debuginfod_seconds;
	return symbols;
}

static void file_close(struct elf_file *file)
{
	if (file && file->dwfl)
		dwfl_end(file->dwfl);
	free(file);
}

static void cache_empty(struct symbols *symbols)
{
	unsigned int i;

	for (i = 0; i < CACHE_MAX; i++)
		free(symbols->cache[i].name);
	memset(symbols->cache, 0, sizeof(symbols->cache));
	symbols->nr_cached = 0;
	symbols->cached_bytes = 0;
}

void symbols_free(struct symbols *symbols)
{
	unsigned int i;

	if (!symbols)
		return;
	for (i = 0; i < FILES_MAX; i++)
		file_close(symbols->files[i]);
	cache_empty(symbols);
	free(symbols);
}

void symbols_begin(struct symbols *symbols)
{
	unsigned int i;

	symbols->time_is_up = false;
	symbols->deadline_ns =
		clock_monotonic_ns() + symbols->debuginfod_seconds * UINT64_C(1000000000);
	for (i = 0; i < FILES_MAX; i++) {
		if (!symbols->files[i] || !symbols->files[i]->late)
			continue;
		file_close(symbols->files[i]);
		symbols->files[i] = NULL;
	}
}

/* Called all the time while a server is waited for; not 0 ends that. */
static int watch_time(debuginfod_client *client, long done, long all)
{
	struct symbols *symbols = debuginfod_get_user_data(client);

	(void)done;
	(void)all;
	if (clock_monotonic_ns() >= symbols->deadline_ns)
		symbols->time_is_up = true;
	return symbols->time_is_up;
}

static void limit_time(struct symbols *symbols, Dwfl *dwfl)
{
	debuginfod_client *client;

	if (!symbols->debuginfod_seconds)
		return;
	client = dwfl_get_debuginfod_client(dwfl);
	if (!client)
		return;
	debuginfod_set_user_data(client, symbols);
	debuginfod_set_progressfn(client, watch_time);
}

static struct elf_file *file_open(struct symbols *symbols, unsigned int binary, int fd,
				  const char *path)
{
	struct elf_file *file = xcalloc(1, sizeof(*file));
	int own = fcntl(fd, F_DUPFD_CLOEXEC, 0);

	file->binary = binary;
	if (own < 0)
		return file;
	file->dwfl = dwfl_begin(&callbacks);
	if (!file->dwfl) {
		close(own);
		return file;
	}
	limit_time(symbols, file->dwfl);
	dwfl_report_begin(file->dwfl);
	/* It takes the descriptor over, but only if it succeeds. */
	file->module = dwfl_report_offline(file->dwfl, path, path, own);
	dwfl_report_end(file->dwfl, NULL, NULL);
	if (!file->module)
		close(own);
	else
		file->elf = dwfl_module_getelf(file->module, &file->bias);
	if (!file->elf) {
		say_verbose("no symbols from %s: %s", path, dwfl_errmsg(-1));
		dwfl_end(file->dwfl);
		file->dwfl = NULL;
	}
	return file;
}

static struct elf_file *file_find(struct symbols *symbols, unsigned int binary, int fd,
				  const char *path)
{
	struct elf_file **oldest = &symbols->files[0];
	unsigned int i;

	for (i = 0; i < FILES_MAX; i++) {
		if (!symbols->files[i]) {
			oldest = &symbols->files[i];
			break;
		}
		if (symbols->files[i]->binary == binary)
			goto found;
		if (symbols->files[i]->used < (*oldest)->used)
			oldest = &symbols->files[i];
	}
	file_close(*oldest);
	*oldest = file_open(symbols, binary, fd, path);
	(*oldest)->used = ++symbols->uses;
	return *oldest;
found:
	symbols->files[i]->used = ++symbols->uses;
	return symbols->files[i];
}

/* Where the loader would put this offset of the file; false if nowhere. */
static bool offset_address(Elf *elf, uint64_t offset, GElf_Addr *address)
{
	GElf_Phdr segment;
	size_t count, i;

	if (elf_getphdrnum(elf, &count))
		return false;
	for (i = 0; i < count; i++) {
		if (!gelf_getphdr(elf, (int)i, &segment) || segment.p_type != PT_LOAD ||
		    !(segment.p_flags & PF_X))
			continue;
		if (offset >= segment.p_offset && offset - segment.p_offset < segment.p_filesz) {
			*address = offset - segment.p_offset + segment.p_vaddr;
			return true;
		}
	}
	return false;
}

static char *look_up(struct elf_file *file, uint64_t offset)
{
	GElf_Addr address;
	GElf_Off distance;
	const char *name;
	GElf_Sym symbol;
	size_t length;
	char *copy, plain[NAME_MAX_BYTES + 1];

	if (!file->dwfl || !offset_address(file->elf, offset, &address))
		return NULL;
	name = dwfl_module_addrinfo(file->module, address + file->bias, &distance, &symbol, NULL,
				    NULL, NULL);
	if (!name || !*name || distance >= symbol.st_size)
		return NULL;
	/* "memcpy@@GLIBC_2.14" is memcpy. */
	length = strcspn(name, "@");
	if (!length || length > NAME_MAX_BYTES)
		length = strnlen(name, NAME_MAX_BYTES);
	copy = xstrndup(name, length);
	if (demangle(copy, plain, sizeof(plain))) {
		free(copy);
		copy = xstrdup(plain);
	}
	clean_string(copy);
	return copy;
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

const char *symbols_find(struct symbols *symbols, uint64_t key, int fd, const char *path)
{
	struct elf_file *file;
	struct cached *place;
	bool was_up;
	char *name;

	if (fd < 0)
		return NULL;
	place = cache_place(symbols, key);
	if (!place->name) {
		was_up = symbols->time_is_up;
		file = file_find(symbols, FRAME_BINARY(key), fd, path);
		name = look_up(file, FRAME_OFFSET(key));
		if (symbols->time_is_up && !was_up)
			say_verbose("%s: no debug file came in %u s: it has no names for now", path,
				    symbols->debuginfod_seconds);
		/* A file that was asked for after the time is as late as the one that took it. */
		file->late |= symbols->time_is_up && !name;
		if (file->late && !name)
			return NULL;
		place->key = key;
		place->name = name ? name : xstrdup("");
		symbols->nr_cached++;
		symbols->cached_bytes += strlen(place->name) + 1;
	}
	return *place->name ? place->name : NULL;
}
