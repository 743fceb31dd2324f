/* SPDX-License-Identifier: GPL-2.0-only */
/* Names of functions, from the symbols of ELF files. */
#ifndef HABD_SYMBOLS_H
#define HABD_SYMBOLS_H

#include <stdint.h>

#include "daemon/collect/symbol_reader.h"

struct symbols;

/* The names of one profile, and the time that they take. One thread uses it. */
struct naming {
	struct symbols *symbols;
	uint64_t deadline_ns;	      /* CLOCK_MONOTONIC */
	uint64_t lines_deadline_ns;   /* of source lines, which come after the names */
	uint64_t network_deadline_ns; /* 0: no debug file comes from the network */
	unsigned int late;	      /* names that did not come in time */
};

/*
 * @debuginfod_seconds: how long the names of one profile may wait for debug files from the servers
 * in DEBUGINFOD_URLS; 0: no server is used. @lines_ms: how long its source lines may take; the
 * next profile goes on from there. @beside: debug files may be beside their programs.
 */
struct symbols *symbols_new(unsigned int debuginfod_seconds, unsigned int lines_ms,
			    bool beside);
void symbols_free(struct symbols *symbols);
/* Closes the files that do not stay, and no name was asked of for a while. Any thread. */
void symbols_tidy(struct symbols *symbols, symbol_file_stays stays, void *context);
/* Files whose symbols could not be read. Any thread may call it. */
unsigned long symbols_unreadable(const struct symbols *symbols);
/* Names that did not come in time, of all profiles. Any thread may call it. */
unsigned long symbols_late(const struct symbols *symbols);

/* Several profiles can be named at once. The time of this one begins now. */
void naming_begin(struct naming *naming, struct symbols *symbols);
void naming_end(struct naming *naming);
/* The answer for an offset of a file; NULL if there is none, or late. free() it. */
char *naming_find(struct naming *naming, const struct symbol_source *source, uint64_t offset,
		  enum symbol_question question);

#endif /* HABD_SYMBOLS_H */
