// SPDX-License-Identifier: GPL-2.0-only
/*
 * A file that is there when it is whole, or not at all.
 *
 * The hard case is a recording of an hour that cannot be written at its end. So a file is made
 * beside the place before anything is recorded; it takes the name when it is complete.
 */
#include "daemon/habctl/output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/shared/util.h"

static bool is_writable(const char *path)
{
	struct stat status;

	if (stat(path, &status))
		return true;
	if (!S_ISREG(status.st_mode)) {
		say("%s is there and is no file: give -o another name", path);
		return false;
	}
	if (access(path, W_OK)) {
		say("%s cannot be written: %s: give -o another name", path, strerror(errno));
		return false;
	}
	return true;
}

bool output_open(struct output *output, const char *path)
{
	const char *slash = strrchr(path, '/');
	mode_t mask;

	output->path = path;
	output->temporary = NULL;
	output->fd = -1;
	if (!is_writable(path) || asprintf(&output->temporary, "%.*s.habctl-XXXXXX",
					   slash ? (int)(slash + 1 - path) : 0, path) < 0)
		return false;
	output->fd = mkostemp(output->temporary, O_CLOEXEC);
	if (output->fd < 0) {
		say("%s cannot be written: its folder: %s: make it, or give -o another name", path,
		    strerror(errno));
		free(output->temporary);
		output->temporary = NULL;
		return false;
	}
	/* As any file that a command makes. */
	mask = umask(0);
	umask(mask);
	if (fchmod(output->fd, 0666 & ~mask))
		say_verbose("%s: %s", output->temporary, strerror(errno));
	return true;
}

static bool write_all(int fd, const char *data, size_t length)
{
	ssize_t part;

	while (length) {
		part = write(fd, data, length);
		if (part < 0 && errno == EINTR)
			continue;
		if (part < 0)
			return false;
		data += part;
		length -= (size_t)part;
	}
	return true;
}

bool output_keep(struct output *output, const void *data, size_t length)
{
	bool good = write_all(output->fd, data, length);
	int error = errno;

	/* Some file systems only tell now that there is no room. */
	if (close(output->fd) && good) {
		good = false;
		error = errno;
	}
	output->fd = -1;
	if (good && rename(output->temporary, output->path)) {
		good = false;
		error = errno;
	}
	if (good) {
		free(output->temporary);
		output->temporary = NULL;
		return true;
	}
	output_drop(output);
	say("%s could not be written: %s: %zu bytes are needed; nothing is left of it",
	    output->path, strerror(error), length);
	return false;
}

void output_drop(struct output *output)
{
	if (output->fd >= 0)
		close(output->fd);
	if (output->temporary)
		unlink(output->temporary);
	free(output->temporary);
	output->temporary = NULL;
	output->fd = -1;
}

bool output_flush(const char *what)
{
	/* What was too much for the buffer has failed before, and is not tried again. */
	if (!fflush(stdout) && !ferror(stdout))
		return true;
	say("%s cannot be written: %s", what, strerror(errno));
	return false;
}
