/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The functions of programs that an interpreter runs, with the lines that allocate. A frame of one
 * is FRAME(BINARY_NAMES, number): so it is found without its process, which may have ended.
 */
#ifndef HABD_INTERPRETER_NAMES_H
#define HABD_INTERPRETER_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/shared/limits.h"

/* Number 0 is a function that is not known. */
#define NAMES_MAX LIMIT_NAMES

struct frame_name {
	const char *function;
	const char *file; /* its path; "": not known */
	unsigned int line;
};

/* The caller of these holds the daemon's lock, but for names_get() and names_release(). */
struct names *names_new(void);
void names_free(struct names *names);
/* The number of a name, which is cleaned; 0: there is no room. */
uint32_t names_add(struct names *names, const char *function, size_t function_length,
		   const char *file, size_t file_length, unsigned int line);
/* Valid until names_release(), if names_hold() was called when the number was found in a stack. */
struct frame_name names_get(const struct names *names, uint32_t number);
void names_hold(struct names *names);
void names_release(struct names *names);
/* True if names_evict() should be called: the table is nearly full, and nobody holds it. */
bool names_are_crowded(const struct names *names);
/* Frees the names whose numbers are not in @used. Returns how many. */
unsigned int names_evict(struct names *names, const bool used[NAMES_MAX]);

#endif /* HABD_INTERPRETER_NAMES_H */
