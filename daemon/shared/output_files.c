// SPDX-License-Identifier: GPL-2.0-only
/*
 * The files that habctl and habrun write: each appears under its name when it is complete.
 *
 * A folder that cannot be written is found before a recording: the temporary file is made in it
 * then, and renamed once complete.
 */
#include "daemon/shared/output_files.h"

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
	mode_t mask;

	output->path = path;
	output->temporary = NULL;
	output->fd = -1;
	if (!is_writable(path))
		return false;
	output->temporary = xformat("%.*s.hab-XXXXXX", (int)(basename(path) - path), path);
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
