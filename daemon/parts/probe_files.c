// SPDX-License-Identifier: GPL-2.0-only
/*
 * Finds the files with probes among the binaries. A file is followed as long as the table of
 * binaries has it open: then a process has it mapped, or had a moment ago.
 */
#include "daemon/parts/probe_files.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/parts/part.h"
#include "daemon/shared/elf_reader.h"
#include "daemon/shared/util.h"

#define LOOKS_MAX 16 /* in one tick */

struct seen_file {
	uint64_t serial; /* 0: none */
	bool followed;
};

struct probe_files {
	struct seen_file files[BINARIES_MAX]; /* by number of the binary */
};

struct probe_files *probe_files_new(void)
{
	return xcalloc(1, sizeof(struct probe_files));
}

void probe_files_free(struct probe_files *files)
{
	free(files);
}

/* False: the prober was not told. */
static bool tell(enum part_message_type type, uint64_t serial, int fd)
{
	const struct part_message message = { .type = type, .serial = serial };

	if (part_send(PART_CONTROL_FD, &message, &fd, fd >= 0))
		return true;
	say_verbose("the probes of a file are not followed: %s", strerror(errno));
	return false;
}

static void look_at(struct seen_file *seen, const struct binary *binary)
{
	if (!probe_places_count(binary->file.fd))
		return;
	seen->followed = tell(PART_PROBES, binary->serial, binary->file.fd);
}

/* Of a perf map, and of what a server has, nothing is read here. */
static bool is_open(const struct binary *binary)
{
	return binary->file.fd >= 0 && binary->file.changed.tv_sec && !binary->file.remote;
}

/* A reference to the next that is new, or NULL. */
static struct binary *next_locked(struct probe_files *files, struct binaries *binaries,
				  unsigned int *number)
{
	struct seen_file *seen;
	struct binary *binary;

	for (; *number < BINARIES_MAX; ++*number) {
		seen = &files->files[*number];
		binary = binaries_get(binaries, *number);
		if (seen->serial && (!is_open(binary) || seen->serial != binary->serial)) {
			if (seen->followed)
				tell(PART_PROBES_END, seen->serial, -1);
			*seen = (struct seen_file){ 0 };
		}
		if (!seen->serial && is_open(binary)) {
			binary_ref(binary);
			return binary;
		}
	}
	return NULL;
}

void probe_files_tick(struct probe_files *files, struct binaries *binaries, pthread_mutex_t *lock)
{
	unsigned int looks, number = 0;
	struct binary *binary;

	for (looks = 0; looks < LOOKS_MAX; looks++) {
		pthread_mutex_lock(lock);
		binary = next_locked(files, binaries, &number);
		pthread_mutex_unlock(lock);
		if (!binary)
			return;
		files->files[number].serial = binary->serial;
		look_at(&files->files[number], binary);
		binary_unref(binary);
	}
}
