// SPDX-License-Identifier: GPL-2.0-only
/* Strings, each kept once and known by its number. */
#include "daemon/shared/string_table.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/shared/hash.h"

struct string {
	UT_hash_handle hh;
	unsigned int number;
	char text[];
};

static struct string *find(const struct strings *strings, const void *key, size_t size)
{
	struct string *string;

	HASH_FIND(hh, strings->by_text, key, size, string);
	return string;
}

unsigned int strings_find(const struct strings *strings, const void *key, size_t size)
{
	const struct string *string = find(strings, key, size);

	return string ? string->number : 0;
}

unsigned int strings_key(struct strings *strings, const void *key, size_t size)
{
	struct string *string = find(strings, key, size);

	if (string)
		return string->number;
	string = xcalloc(1, sizeof(*string) + size + 1);
	memcpy(string->text, key, size);
	string->number = strings->count;
	HASH_ADD_KEYPTR(hh, strings->by_text, string->text, size, string);
	strings->table =
		xgrow(strings->table, strings->count, &strings->room, sizeof(*strings->table));
	strings->table[strings->count] = string->text;
	return strings->count++;
}

unsigned int strings_number(struct strings *strings, const char *text)
{
	return strings_key(strings, text, strlen(text));
}

const char *strings_keep(struct strings *strings, const char *text)
{
	unsigned int number = strings_number(strings, text);

	return strings->table[number];
}

void strings_begin(struct strings *strings)
{
	memset(strings, 0, sizeof(*strings));
	strings_number(strings, "");
}

void strings_end(struct strings *strings)
{
	HASH_FREE(strings->by_text);
	free(strings->table);
}
