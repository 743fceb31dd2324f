// SPDX-License-Identifier: GPL-2.0-only
/*
 * The binaries that stacks run through.
 *
 * The hard case is a profile of a program that has ended. So its file is opened at first sight and
 * stays open: symbols can be read from it even after both the process and the file's name are gone.
 * Files without a build id that counts are distinguished by device, inode and time of change.
 */
#include "daemon/symbols/binaries.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/shared/util.h"
#include "daemon/symbols/build_id.h"

#define NO_OWNER ((uid_t)-1) /* of binaries without a file */

struct binaries {
	struct binary *table[BINARIES_MAX];
	unsigned int count;
	uint64_t refused;
};

struct binaries *binaries_new(void)
{
	struct binaries *binaries = xcalloc(1, sizeof(*binaries));

	binaries_add_name(binaries, "[unknown]");
	return binaries;
}

void binaries_free(struct binaries *binaries)
{
	unsigned int i;

	if (!binaries)
		return;
	for (i = 0; i < binaries->count; i++) {
		if (binaries->table[i]->fd >= 0)
			close(binaries->table[i]->fd);
		free(binaries->table[i]->path);
		free(binaries->table[i]);
	}
	free(binaries);
}

static void set_path(struct binary *binary, const char *path)
{
	free(binary->path);
	binary->path = xstrdup(path);
	clean_string(binary->path);
	binary->name = basename(binary->path);
}

static bool has_too_many(const struct binaries *binaries, uid_t owner)
{
	unsigned int i, count = 0;

	for (i = 0; i < binaries->count; i++)
		count += binaries->table[i]->owner == owner;
	return owner && count >= BINARIES_OF_USER;
}

static struct binary *add(struct binaries *binaries, const char *path, uid_t owner)
{
	struct binary *binary;

	if (binaries->count == BINARIES_MAX || has_too_many(binaries, owner)) {
		binaries->refused++;
		return NULL;
	}
	binary = xcalloc(1, sizeof(*binary));
	binary->fd = -1;
	binary->owner = owner;
	set_path(binary, path);
	binaries->table[binaries->count++] = binary;
	return binary;
}

unsigned int binaries_add_name(struct binaries *binaries, const char *name)
{
	unsigned int i;

	for (i = 0; i < binaries->count; i++)
		if (binaries->table[i]->fd < 0 && !strcmp(binaries->table[i]->path, name))
			return i;
	return add(binaries, name, NO_OWNER) ? i : BINARY_UNKNOWN;
}

static bool same_file(const struct binary *binary, const struct stat *status)
{
	return binary->fd >= 0 && binary->device == status->st_dev &&
	       binary->inode == status->st_ino &&
	       binary->changed.tv_sec == status->st_mtim.tv_sec &&
	       binary->changed.tv_nsec == status->st_mtim.tv_nsec;
}

/*
 * The file of root with that build id, or the entry that has no file yet; BINARIES_MAX if there is
 * none. Short ids are padded with zeros, as by the kernel.
 */
static unsigned int find_id(struct binaries *binaries, const uint8_t *build_id)
{
	unsigned int i;

	for (i = 0; i < binaries->count; i++)
		if (binaries->table[i]->build_id_length && binaries->table[i]->trusted &&
		    !memcmp(binaries->table[i]->build_id, build_id, HAB_BUILD_ID_LEN))
			return i;
	return BINARIES_MAX;
}

unsigned int binaries_add_file(struct binaries *binaries, int fd, const char *path)
{
	uint8_t build_id[HAB_BUILD_ID_LEN];
	unsigned int i, length, number = BINARIES_MAX;
	struct binary *binary;
	struct stat status;
	bool trusted;

	if (fstat(fd, &status)) {
		close(fd);
		return binaries_add_name(binaries, path);
	}
	for (i = 0; i < binaries->count; i++) {
		if (same_file(binaries->table[i], &status)) {
			close(fd);
			return i;
		}
	}
	length = build_id_read(fd, build_id);
	trusted = !status.st_uid && !(status.st_mode & (S_IWGRP | S_IWOTH));
	if (length && trusted)
		number = find_id(binaries, build_id);
	if (number != BINARIES_MAX && binaries->table[number]->fd >= 0) {
		close(fd);
		return number;
	}
	if (number == BINARIES_MAX) {
		number = binaries->count;
		if (!add(binaries, path, status.st_uid)) {
			close(fd);
			return BINARY_UNKNOWN;
		}
	}
	binary = binaries->table[number];
	set_path(binary, path);
	memcpy(binary->build_id, build_id, sizeof(build_id));
	binary->build_id_length = length;
	binary->trusted = trusted;
	binary->device = status.st_dev;
	binary->inode = status.st_ino;
	binary->changed = status.st_mtim;
	binary->fd = fd;
	return number;
}

/* The symbols of a file that was not seen mapped may still be installed. */
static int open_debug_file(const uint8_t *build_id)
{
	char path[64 + 2 * HAB_BUILD_ID_LEN];
	int at, i;

	at = snprintf(path, sizeof(path), "/usr/lib/debug/.build-id/%02x/", build_id[0]);
	for (i = 1; i < HAB_BUILD_ID_LEN; i++)
		at += snprintf(path + at, sizeof(path) - (size_t)at, "%02x", build_id[i]);
	snprintf(path + at, sizeof(path) - (size_t)at, ".debug");
	return open(path, O_RDONLY | O_CLOEXEC);
}

unsigned int binaries_find_id(struct binaries *binaries, const uint8_t *build_id)
{
	unsigned int number = find_id(binaries, build_id);
	char name[32];
	struct binary *binary;

	if (number != BINARIES_MAX)
		return number;
	snprintf(name, sizeof(name), "[build-id %02x%02x%02x%02x]", build_id[0], build_id[1],
		 build_id[2], build_id[3]);
	binary = add(binaries, name, NO_OWNER);
	if (!binary)
		return BINARY_UNKNOWN;
	memcpy(binary->build_id, build_id, HAB_BUILD_ID_LEN);
	binary->build_id_length = HAB_BUILD_ID_LEN;
	binary->trusted = true;
	binary->fd = open_debug_file(build_id);
	return binaries->count - 1;
}

unsigned int binaries_count(const struct binaries *binaries)
{
	return binaries->count;
}

uint64_t binaries_refused(const struct binaries *binaries)
{
	return binaries->refused;
}

struct binary *binaries_get(struct binaries *binaries, unsigned int number)
{
	return binaries->table[number < binaries->count ? number : BINARY_UNKNOWN];
}
