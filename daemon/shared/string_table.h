/* SPDX-License-Identifier: GPL-2.0-only */
/* Strings, or keys of any bytes, each kept once and known by its number. Number 0 is "". */
#ifndef HABD_STRING_TABLE_H
#define HABD_STRING_TABLE_H

#include <stddef.h>

struct string;

struct strings {
	char **table; /* by number */
	unsigned int count;
	unsigned int room;
	struct string *by_text;
};

void strings_begin(struct strings *strings);
void strings_end(struct strings *strings);
unsigned int strings_number(struct strings *strings, const char *text);
/* The same of any bytes that are a key. */
unsigned int strings_key(struct strings *strings, const void *key, size_t size);
/* 0: it has none. */
unsigned int strings_find(const struct strings *strings, const void *key, size_t size);
/* The kept string, valid until strings_end(). */
const char *strings_keep(struct strings *strings, const char *text);

#endif /* HABD_STRING_TABLE_H */
