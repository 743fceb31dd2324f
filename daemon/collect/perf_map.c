// SPDX-License-Identifier: GPL-2.0-only
/*
 * Perf maps. A JIT compiler uses memory again, so the file may have several functions for one
 * address. The last line is the valid one.
 */
#include "daemon/collect/perf_map.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/arithmetic.h"
#include "daemon/shared/util.h"

#define BYTES_MAX     (64u << 20)
#define FUNCTIONS_MAX (1u << 20)
#define STEPS_MAX     64 /* functions that begin before an address and may cover it */

struct function {
	uint64_t start;
	uint64_t size;
	uint32_t line;
	uint32_t name; /* offset in the text */
};

struct perf_map {
	char *text;
	size_t length;		    /* read, with lines that are left out */
	struct function *functions; /* by start, then by line */
	unsigned int nr;
	unsigned int room;
};

bool perf_map_has_name(const char *path)
{
	const char *name = strrchr(path, '/');
	size_t length;

	name = name ? name + 1 : path;
	length = strlen(name);
	return length > 9 && !strncmp(name, "perf-", 5) && !strcmp(name + length - 4, ".map");
}

int perf_map_open(const char *path, uid_t user, struct stat *status)
{
	int fd = open_regular(path, O_NOFOLLOW, status);

	if (fd < 0 || status->st_uid == user)
		return fd;
	close(fd);
	return -1;
}

static void read_text(struct perf_map *map, int fd)
{
	struct stat status;
	size_t size;
	ssize_t got;

	if (fstat(fd, &status) || status.st_size <= 0)
		return;
	size = (size_t)min((uint64_t)status.st_size, (uint64_t)BYTES_MAX);
	map->text = xcalloc(1, size + 1);
	while (map->length < size) {
		got = pread(fd, map->text + map->length, size - map->length, (off_t)map->length);
		if (got <= 0)
			break;
		map->length += (size_t)got;
	}
	map->text[map->length] = 0;
}

/* @line ends with NUL. */
static void add_line(struct perf_map *map, char *line, uint32_t number)
{
	char *size_text, *name;
	uint64_t start = strtoull(line, &size_text, 16);
	uint64_t size = strtoull(size_text, &name, 16);

	if (size_text == line || name == size_text || *name != ' ' || !name[1] || !size ||
	    size > UINT32_MAX || start + size < start)
		return;
	map->functions = xgrow(map->functions, map->nr, &map->room, sizeof(*map->functions));
	map->functions[map->nr++] =
		(struct function){ start, size, number, (uint32_t)(name + 1 - map->text) };
}

static int compare(const void *one, const void *two)
{
	const struct function *first = one, *second = two;

	if (first->start != second->start)
		return first->start < second->start ? -1 : 1;
	return first->line < second->line ? -1 : first->line > second->line;
}

struct perf_map *perf_map_read(int fd)
{
	struct perf_map *map = xcalloc(1, sizeof(*map));
	uint32_t number = 0;
	char *line, *end;

	read_text(map, fd);
	for (line = map->text; line && map->nr < FUNCTIONS_MAX; line = end + 1) {
		end = strchr(line, '\n');
		if (!end)
			break;
		*end = 0;
		add_line(map, line, number++);
	}
	if (map->nr)
		qsort(map->functions, map->nr, sizeof(*map->functions), compare);
	return map;
}

void perf_map_free(struct perf_map *map)
{
	if (!map)
		return;
	free(map->functions);
	free(map->text);
	free(map);
}

uint64_t perf_map_memory(const struct perf_map *map)
{
	return map->length + map->room * sizeof(*map->functions);
}

bool perf_map_has_grown(const struct perf_map *map, int fd)
{
	struct stat status;

	return map->length < BYTES_MAX && !fstat(fd, &status) &&
	       (uint64_t)status.st_size > map->length;
}

const char *perf_map_find(const struct perf_map *map, uint64_t address)
{
	const struct function *function, *found = NULL;
	unsigned int low = 0, high = map->nr, middle, steps;

	/* The functions before low begin at the address or before it. */
	while (low < high) {
		middle = low + (high - low) / 2;
		if (map->functions[middle].start <= address)
			low = middle + 1;
		else
			high = middle;
	}
	for (steps = 0; steps < low && steps < STEPS_MAX; steps++) {
		function = &map->functions[low - 1 - steps];
		if (address - function->start < function->size &&
		    (!found || function->line > found->line))
			found = function;
	}
	return found ? map->text + found->name : NULL;
}
