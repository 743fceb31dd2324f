// SPDX-License-Identifier: GPL-2.0-only
/*
 * A file that appears under its name when it is complete.
 *
 * The hard case is a recording of an hour that cannot be written at its end. So a temporary file is
 * made in the folder before the recording; once complete it is renamed.
 */
#include "daemon/habctl/output_file.h"

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
		say("%s is no file: give -o another name", path);
		return false;
	}
	if (access(path, W_OK)) {
		say("%s cannot be written: %s: give -o another name", path, strerror(errno));
		return false;
	}
	return true;
}

bool output_file_open(struct output_file *output, const char *path)
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
	/* mkostemp() ignores the umask. */
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

bool output_file_write(struct output_file *output, const void *data, size_t length)
{
	bool good = write_all(output->fd, data, length);
	int error = errno;

	/* Some file systems report a full disk only here. */
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
	output_file_drop(output);
	say("%s could not be written: %s: it needs %zu bytes; nothing of it is left", output->path,
	    strerror(error), length);
	return false;
}

void output_file_drop(struct output_file *output)
{
	if (output->fd >= 0)
		close(output->fd);
	if (output->temporary)
		unlink(output->temporary);
	free(output->temporary);
	output->temporary = NULL;
	output->fd = -1;
}
