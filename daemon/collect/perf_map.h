/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Perf maps: /tmp/perf-PID.map, a list of the functions that a JIT compiler has made.
 * The convention is Linux's tools/perf/Documentation/jit-interface.txt: a line for each function,
 * with its start and size in hexadecimal digits and its name.
 */
#ifndef HABD_PERF_MAP_H
#define HABD_PERF_MAP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

struct perf_map;

/* True if @path is the name of a perf map. */
bool perf_map_has_name(const char *path);
/* -1: there is none that @user has made. */
int perf_map_open(const char *path, uid_t user, struct stat *status);

/* Reads the file, which may still grow; a last line without its end is left out. */
struct perf_map *perf_map_read(int fd);
void perf_map_free(struct perf_map *map);
uint64_t perf_map_memory(const struct perf_map *map);
/* True if the file is larger than what was read. */
bool perf_map_has_grown(const struct perf_map *map, int fd);
/* The function at @address, the latest if several were there; NULL if there is none. */
const char *perf_map_find(const struct perf_map *map, uint64_t address);

#endif /* HABD_PERF_MAP_H */
