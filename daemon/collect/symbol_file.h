/* SPDX-License-Identifier: GPL-2.0-only */
/* The symbols of one ELF file. */
#ifndef HABD_SYMBOL_FILE_H
#define HABD_SYMBOL_FILE_H

#include <stdbool.h>
#include <stdint.h>

#define SYMBOLS_MAX (4u << 20) /* of a file */

struct symbol_file;

/*
 * The descriptors stay the caller's; @debug_fd is the file's separate debug file, -1: none. Opens
 * no other file, but with @beside the one that the file names (.gnu_debuglink). Never fails: a file
 * that cannot be read has no names. SIGBUS: it was cut off.
 */
struct symbol_file *symbol_file_open(int fd, int debug_fd, const char *path, bool beside);
void symbol_file_close(struct symbol_file *file);
/* About what it takes, in bytes. */
uint64_t symbol_file_memory(const struct symbol_file *file);
/* True: the file has more symbols than the limit, so that none was read. */
bool symbol_file_has_too_many(const struct symbol_file *file);
/* True: the file is stripped, and was opened without a debug file. */
bool symbol_file_needs_debug(const struct symbol_file *file);
/* True: more functions may have been added to the file since it was opened. */
bool symbol_file_has_grown(const struct symbol_file *file, int fd);
/* True: the file may grow. */
bool symbol_file_may_grow(const struct symbol_file *file);
/*
 * The function that covers an offset in the file; in a perf map, an address; NULL if no symbol
 * does. Behind the name may be, each after a newline: the symbol if it is another one, where the
 * function begins in hexadecimal digits, and the source file. The caller frees.
 */
char *symbol_file_find(struct symbol_file *file, uint64_t offset);
/* Its source lines, as source_lines_find() has them. */
char *symbol_file_find_lines(struct symbol_file *file, uint64_t offset);

#endif /* HABD_SYMBOL_FILE_H */
