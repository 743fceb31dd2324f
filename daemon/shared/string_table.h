/* SPDX-License-Identifier: GPL-2.0-only */
/* Strings, each kept once and known by its number. Number 0 is "". */
#ifndef HABD_STRING_TABLE_H
#define HABD_STRING_TABLE_H

struct strings {
	char **table;
	unsigned int count;
	unsigned int room;
	unsigned int nr_buckets;
	unsigned int *buckets;
};

void strings_begin(struct strings *strings);
void strings_end(struct strings *strings);
unsigned int strings_number(struct strings *strings, const char *string);

#endif /* HABD_STRING_TABLE_H */
