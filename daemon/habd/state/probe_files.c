// SPDX-License-Identifier: GPL-2.0-only
/*
 * Finds the files with probes among the binaries. A file is followed as long as the table of
 * binaries has it open: then a process has it mapped, or had a moment ago.
 */
#include "daemon/habd/state/probe_files.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/habd/parts/part.h"
#include "daemon/shared/elf_reader.h"
#include "daemon/shared/util.h"

#define LOOKS_MAX 16 /* in one tick */

struct seen_file {
	uint64_t serial; /* 0: none */
	bool has_probes;
	bool is_sent; /* to the prober */
};

struct probe_files {
	enum probe_owners owners;
	int prober;			      /* a socket; -1: it is not there yet */
	struct seen_file files[BINARIES_MAX]; /* by number of the binary */
};

struct probe_files *probe_files_new(enum probe_owners owners)
{
	struct probe_files *files = xcalloc(1, sizeof(*files));

	files->owners = owners;
	files->prober = -1;
	return files;
}

void probe_files_free(struct probe_files *files)
{
	if (files && files->prober >= 0)
		close(files->prober);
	free(files);
}

void probe_files_connect(struct probe_files *files, int socket)
{
	if (files->prober >= 0)
		close(files->prober);
	files->prober = socket;
}

/* False: it is to be sent later. */
static bool tell(const struct probe_files *files, enum part_message_type type, uint64_t serial,
		 int fd)
{
	const struct part_message message = { .type = type, .serial = serial };

	return part_send(files->prober, &message, &fd, fd >= 0) || errno != EAGAIN;
}

/* Of a perf map, and of what a server has, nothing is read here. */
static bool is_open(const struct binary *binary)
{
	return binary->file.fd >= 0 && binary->file.changed.tv_sec && !binary->file.remote;
}

/* True if its binary is the same, and open. */
static bool forget_closed(const struct probe_files *files, struct seen_file *seen,
			  const struct binary *binary)
{
	if (seen->serial && is_open(binary) && seen->serial == binary->serial)
		return true;
	if (!seen->is_sent || tell(files, PART_PROBES_END, seen->serial, -1))
		*seen = (struct seen_file){ 0 };
	return false;
}

/* A reference to the next for which there is something to do, or NULL. */
static struct binary *next_locked(struct probe_files *files, struct binaries *binaries,
				  unsigned int *number)
{
	struct seen_file *seen;
	struct binary *binary;
	bool is_known;

	for (; *number < BINARIES_MAX; ++*number) {
		seen = &files->files[*number];
		binary = binaries_get(binaries, *number);
		is_known = forget_closed(files, seen, binary);
		if (is_known ? seen->has_probes && !seen->is_sent && files->prober >= 0 :
			       !seen->serial && is_open(binary)) {
			binary_ref(binary);
			return binary;
		}
	}
	return NULL;
}

bool probe_files_tick(struct probe_files *files, struct binaries *binaries, pthread_mutex_t *lock)
{
	unsigned int looks, number = 0;
	struct binary *binary;
	struct seen_file *seen;
	bool found = false;

	for (looks = 0; looks < LOOKS_MAX; looks++, number++) {
		pthread_mutex_lock(lock);
		binary = next_locked(files, binaries, &number);
		pthread_mutex_unlock(lock);
		if (!binary)
			break;
		seen = &files->files[number];
		if (!seen->serial)
			seen->has_probes = probe_places_count(binary->file.fd, files->owners);
		seen->serial = binary->serial;
		found |= seen->has_probes;
		if (seen->has_probes && files->prober >= 0)
			seen->is_sent = tell(files, PART_PROBES, seen->serial, binary->file.fd);
		binary_unref(binary);
	}
	return found;
}
