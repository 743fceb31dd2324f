/* SPDX-License-Identifier: GPL-2.0-only */
/* Source lines and inlined functions of the addresses of one file, by DWARF. */
#ifndef HABD_SOURCE_LINES_H
#define HABD_SOURCE_LINES_H

#include <elfutils/libdw.h>
#include <stdint.h>

struct source_lines;

/* @dwarf stays the caller's. */
struct source_lines *source_lines_new(Dwarf *dwarf);
void source_lines_free(struct source_lines *lines);
/* About what it takes, in bytes. */
uint64_t source_lines_memory(const struct source_lines *lines);
/*
 * Where @address, of the file, is: a text with a line "function\tfile\tline\n" for each function
 * that is inlined there, innermost first, and at last "\tfile\tline\n" for the function that they
 * are in. A line that is not known is 0. NULL: nothing is known of the address. The caller frees.
 */
char *source_lines_find(struct source_lines *lines, uint64_t address);

#endif /* HABD_SOURCE_LINES_H */
