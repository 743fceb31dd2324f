/* SPDX-License-Identifier: GPL-2.0-only */
/* Names of functions, from the symbols of ELF files. */
#ifndef HABD_SYMBOLS_H
#define HABD_SYMBOLS_H

#include <stdint.h>

/* Not locked: one thread at a time. */
struct symbols;

/*
 * Called before the program has threads, since it forks.
 * @debuginfod_seconds: how long the names of one profile may wait for debug files from the servers
 * in DEBUGINFOD_URLS; 0: the caller has unset that, and no server is used.
 */
struct symbols *symbols_new(unsigned int debuginfod_seconds);
void symbols_free(struct symbols *symbols);
/* The names of a new profile follow. */
void symbols_begin(struct symbols *symbols);
/* Files whose symbols could not be read. Any thread may call it. */
unsigned long symbols_unreadable(const struct symbols *symbols);

/*
 * The function that covers an offset of an open ELF file; NULL if no symbol does. @key is the
 * FRAME(); @path is where to look for the debug file. The name is valid until the next call.
 */
const char *symbols_find(struct symbols *symbols, uint64_t key, int fd, const char *path);

#endif /* HABD_SYMBOLS_H */
