// SPDX-License-Identifier: GPL-2.0-only
#include "daemon/collect/interpreter_names.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "core/arithmetic.h"
#include "daemon/shared/hash.h"
#include "daemon/shared/util.h"

#define FUNCTION_MAX 240u
#define FILE_MAX     480u

/* A key without holes. */
struct name_key {
	unsigned int line;
	char text[FUNCTION_MAX + FILE_MAX + 2]; /* function and file, each with its NUL */
};

struct name {
	UT_hash_handle hh;
	uint32_t number;
	unsigned int file;   /* where it begins in the text */
	struct name_key key; /* last: as long as it needs */
};

struct names {
	struct name *by_key;
	atomic_uint held;
	uint32_t next; /* the search for a free number begins here */
	struct name *by_number[NAMES_MAX];
};

struct names *names_new(void)
{
	return xcalloc(1, sizeof(struct names));
}

static void drop(struct names *names, struct name *name)
{
	HASH_DELETE(hh, names->by_key, name);
	names->by_number[name->number] = NULL;
	limits_give_back(LIMITED_NAMES, 1);
	free(name);
}

void names_free(struct names *names)
{
	while (names->by_key)
		drop(names, names->by_key);
	free(names);
}

/* Returns the bytes of the key. */
static unsigned int make_key(struct name_key *key, const char *function, size_t function_length,
			     const char *file, size_t file_length, unsigned int line,
			     unsigned int *file_at)
{
	key->line = line;
	clean_copy(key->text, FUNCTION_MAX + 1, function, function_length);
	*file_at = (unsigned int)strlen(key->text) + 1;
	/* The end of a path says more. */
	if (file_length > FILE_MAX) {
		file += file_length - FILE_MAX;
		file_length = FILE_MAX;
	}
	clean_copy(key->text + *file_at, FILE_MAX + 1, file, file_length);
	return (unsigned int)offsetof(struct name_key, text) + *file_at +
	       (unsigned int)strlen(key->text + *file_at) + 1;
}

static uint32_t free_number(struct names *names)
{
	do
		names->next = names->next % (NAMES_MAX - 1) + 1;
	while (names->by_number[names->next]);
	return names->next;
}

uint32_t names_add(struct names *names, const char *function, size_t function_length,
		   const char *file, size_t file_length, unsigned int line)
{
	struct name_key key;
	struct name *name;
	unsigned int file_at, bytes;

	bytes = make_key(&key, function, function_length, file, file_length, line, &file_at);
	HASH_FIND(hh, names->by_key, &key, bytes, name);
	if (name)
		return name->number;
	/* One number is never free. */
	if (HASH_COUNT(names->by_key) == NAMES_MAX - 1) {
		limits_refuse(LIMITED_NAMES);
		return 0;
	}
	limits_add(LIMITED_NAMES, 1);
	name = xcalloc(1, offsetof(struct name, key) + bytes);
	memcpy(&name->key, &key, bytes);
	name->file = file_at;
	name->number = free_number(names);
	names->by_number[name->number] = name;
	HASH_ADD(hh, names->by_key, key, bytes, name);
	return name->number;
}

struct frame_name names_get(const struct names *names, uint32_t number)
{
	const struct name *name = number < NAMES_MAX ? names->by_number[number] : NULL;

	if (!name)
		return (struct frame_name){ "[unknown function]", "", 0 };
	return (struct frame_name){ name->key.text, name->key.text + name->file, name->key.line };
}

void names_hold(struct names *names)
{
	atomic_fetch_add(&names->held, 1);
}

void names_release(struct names *names)
{
	atomic_fetch_sub(&names->held, 1);
}

bool names_are_crowded(const struct names *names)
{
	return HASH_COUNT(names->by_key) > NAMES_MAX / 4 * 3 && !atomic_load(&names->held);
}

unsigned int names_evict(struct names *names, const bool used[NAMES_MAX])
{
	struct name *name, *next;
	unsigned int evicted = 0;

	HASH_ITER(hh, names->by_key, name, next)
	{
		if (used[name->number])
			continue;
		drop(names, name);
		evicted++;
	}
	return evicted;
}
