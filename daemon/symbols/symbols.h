/* SPDX-License-Identifier: GPL-2.0-only */
/* Names of functions, from the symbols of ELF files. */
#ifndef HABD_SYMBOLS_H
#define HABD_SYMBOLS_H

#include <stdint.h>
#include <sys/types.h>

struct symbols;
struct naming_user;

/* A file with functions. */
struct symbol_source {
	uint64_t id; /* no two files have the same */
	int fd;	     /* -1: it has no names */
	const char *path;
	const uint8_t *build_id;
	unsigned int build_id_length;
	uid_t user; /* whose limit of time its names have; root has none */
};

/* The names of one profile, and the time that they took. One thread uses it. */
struct naming {
	struct symbols *symbols;
	uint64_t deadline_ns;	      /* CLOCK_MONOTONIC */
	uint64_t network_deadline_ns; /* 0: no debug file comes from the network */
	struct naming_user *users;
	unsigned int nr_users;
	unsigned int users_room;
	unsigned int late; /* names that did not come in time */
};

/*
 * Called before the program has threads, since it forks.
 * @debuginfod_seconds: how long the names of one profile may wait for debug files from the servers
 * in DEBUGINFOD_URLS; 0: no server is used.
 */
struct symbols *symbols_new(unsigned int debuginfod_seconds);
void symbols_free(struct symbols *symbols);
/* Files whose symbols could not be read. Any thread may call it. */
unsigned long symbols_unreadable(const struct symbols *symbols);
/* Names that did not come in time, of all profiles. Any thread may call it. */
unsigned long symbols_late(const struct symbols *symbols);

/* Several profiles can be named at once. The time of this one begins now. */
void naming_begin(struct naming *naming, struct symbols *symbols);
void naming_end(struct naming *naming);
/* The function that covers an offset of a file; NULL if no symbol does, or late. free() it. */
char *naming_find(struct naming *naming, const struct symbol_source *source, uint64_t offset);

#endif /* HABD_SYMBOLS_H */
