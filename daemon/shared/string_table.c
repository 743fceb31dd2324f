// SPDX-License-Identifier: GPL-2.0-only
/*
 * Strings, each kept once and known by its number. The hash table, of open
 * addressing, is twice as large as what it holds, so that each search ends.
 */
#include "daemon/shared/string_table.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/shared/util.h"

static unsigned int *place(struct strings *strings, const char *string)
{
	unsigned int i = (unsigned int)hash_bytes(string, strlen(string), 0), *bucket;

	for (;; i++) {
		bucket = &strings->buckets[i & (strings->nr_buckets - 1)];
		if (!*bucket || !strcmp(strings->table[*bucket - 1], string))
			return bucket;
	}
}

static void grow(struct strings *strings)
{
	unsigned int i;

	strings->room = strings->room ? strings->room * 2 : 256;
	strings->table = xrealloc(strings->table, strings->room, sizeof(*strings->table));
	free(strings->buckets);
	strings->nr_buckets = strings->room * 2;
	strings->buckets = xcalloc(strings->nr_buckets, sizeof(*strings->buckets));
	for (i = 0; i < strings->count; i++)
		*place(strings, strings->table[i]) = i + 1;
}

unsigned int strings_number(struct strings *strings, const char *string)
{
	unsigned int *bucket;

	if (strings->count == strings->room)
		grow(strings);
	bucket = place(strings, string);
	if (!*bucket) {
		strings->table[strings->count++] = xstrdup(string);
		*bucket = strings->count;
	}
	return *bucket - 1;
}

void strings_begin(struct strings *strings)
{
	memset(strings, 0, sizeof(*strings));
	strings_number(strings, "");
}

void strings_end(struct strings *strings)
{
	unsigned int i;

	for (i = 0; i < strings->count; i++)
		free(strings->table[i]);
	free(strings->table);
	free(strings->buckets);
}
