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

unsigned int strings_number(struct strings *strings, const char *text)
{
	size_t length = strlen(text);
	struct string *string;

	HASH_FIND(hh, strings->by_text, text, length, string);
	if (string)
		return string->number;
	string = xcalloc(1, sizeof(*string) + length + 1);
	memcpy(string->text, text, length + 1);
	string->number = strings->count;
	HASH_ADD_KEYPTR(hh, strings->by_text, string->text, length, string);
	strings->table =
		xgrow(strings->table, strings->count, &strings->room, sizeof(*strings->table));
	strings->table[strings->count] = string->text;
	return strings->count++;
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
