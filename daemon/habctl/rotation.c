// SPDX-License-Identifier: GPL-2.0-only
/*
 * The files of one recording.
 *
 * The hard case is the promise that they never take more than so many bytes, also while one is
 * written, also after habctl was killed and started again. So the oldest go before the next one
 * is written, and files of the same name that are there already are part of the recording.
 */
#include "daemon/habctl/rotation.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/habctl/output.h"
#include "daemon/shared/util.h"

#define DIGITS 6

static char *path_of(const struct rotation *rotation, uint64_t number)
{
	struct text path = { 0 };

	text_printf(&path, "%s-%0*" PRIu64 "%s", rotation->name, DIGITS, number, rotation->suffix);
	return path.data;
}

/* The number in a file's name; 0: it is none of ours. */
static uint64_t number_of(const struct rotation *rotation, const char *base, const char *file)
{
	size_t length = strlen(base), suffix = strlen(rotation->suffix), size = strlen(file);
	char digits[24];
	uint64_t number;

	if (size < length + 1 + DIGITS + suffix || strncmp(file, base, length) != 0 ||
	    file[length] != '-' || strcmp(file + size - suffix, rotation->suffix) != 0)
		return 0;
	size -= length + 1 + suffix;
	if (size >= sizeof(digits))
		return 0;
	memcpy(digits, file + length + 1, size);
	digits[size] = 0;
	return parse_number(digits, 1, UINT64_MAX - 1, &number) ? number : 0;
}

static void add_file(struct rotation *rotation, uint64_t number, uint64_t size)
{
	if (rotation->count == rotation->room) {
		rotation->room = rotation->room ? rotation->room * 2 : 16;
		rotation->files =
			xrealloc(rotation->files, rotation->room, sizeof(*rotation->files));
	}
	rotation->files[rotation->count].number = number;
	rotation->files[rotation->count++].size = size;
	rotation->size += size;
}

static int compare(const void *one, const void *two)
{
	const struct rotation_file *first = one, *second = two;

	return first->number < second->number ? -1 : first->number > second->number;
}

static bool find_files(struct rotation *rotation)
{
	const char *slash = strrchr(rotation->name, '/');
	const char *base = slash ? slash + 1 : rotation->name;
	char *folder = slash ? xstrndup(rotation->name, (size_t)(slash + 1 - rotation->name)) :
			       xstrdup(".");
	struct dirent *entry;
	struct stat status;
	uint64_t number;
	DIR *directory;

	directory = opendir(folder);
	if (!directory) {
		say("%s cannot be read: %s: make it, or give -o another name", folder,
		    strerror(errno));
		free(folder);
		return false;
	}
	while ((entry = readdir(directory))) {
		number = number_of(rotation, base, entry->d_name);
		if (number && !fstatat(dirfd(directory), entry->d_name, &status, 0) &&
		    S_ISREG(status.st_mode))
			add_file(rotation, number, (uint64_t)status.st_size);
	}
	closedir(directory);
	free(folder);
	if (rotation->count)
		qsort(rotation->files, rotation->count, sizeof(*rotation->files), compare);
	return true;
}

bool rotation_begin(struct rotation *rotation, const char *path, const char *suffix,
		    uint64_t max_size, uint64_t max_files)
{
	memset(rotation, 0, sizeof(*rotation));
	rotation->suffix = suffix;
	rotation->name = xstrndup(path, strlen(path) - strlen(suffix));
	rotation->max_size = max_size;
	rotation->max_files = max_files;
	if (find_files(rotation))
		return true;
	rotation_end(rotation);
	return false;
}

void rotation_end(struct rotation *rotation)
{
	free(rotation->name);
	free(rotation->files);
	memset(rotation, 0, sizeof(*rotation));
}

static bool remove_oldest(struct rotation *rotation)
{
	char *path = path_of(rotation, rotation->files[0].number);
	bool good = !unlink(path) || errno == ENOENT;

	if (!good)
		say("%s cannot be removed: %s: the recording would become larger than promised",
		    path, strerror(errno));
	free(path);
	if (!good)
		return false;
	rotation->size -= rotation->files[0].size;
	rotation->count--;
	memmove(rotation->files, rotation->files + 1, rotation->count * sizeof(*rotation->files));
	return true;
}

enum rotation_result rotation_keep(struct rotation *rotation, const void *data, size_t length)
{
	uint64_t number = rotation->count ? rotation->files[rotation->count - 1].number + 1 : 1;
	struct output output;
	char *path;
	bool good;

	if (rotation->max_size && length > rotation->max_size) {
		say("a profile of %zu bytes is not kept: --max-size allows all files together %" PRIu64,
		    length, rotation->max_size);
		return ROTATION_TOO_LARGE;
	}
	while (rotation->count &&
	       ((rotation->max_files && rotation->count >= rotation->max_files) ||
		(rotation->max_size && rotation->size + length > rotation->max_size)))
		if (!remove_oldest(rotation))
			return ROTATION_FAILED;
	path = path_of(rotation, number);
	good = output_open(&output, path) && output_keep(&output, data, length);
	free(path);
	if (!good)
		return ROTATION_FAILED;
	add_file(rotation, number, length);
	return ROTATION_KEPT;
}

char *rotation_newest(const struct rotation *rotation)
{
	return path_of(rotation, rotation->files[rotation->count - 1].number);
}
