// SPDX-License-Identifier: GPL-2.0-only
/*
 * The files that habctl and habrun write: each appears under its name when it is complete.
 *
 * A folder that cannot be written is found before a recording. Nothing is left in it meanwhile,
 * because what is recorded may remove files that it does not know, or the folder: the temporary
 * file is made at the end, and renamed once complete. What the folder does not take is written to
 * TMPDIR.
 */
#include "daemon/shared/output_files.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/shared/util.h"

#define LINKS_MAX 40u
#define NAME_KEPT 200u /* of a longer one, in TMPDIR */

static bool is_writable(const char *path)
{
	struct stat status;

	if (stat(path, &status)) {
		/* Its folder is looked at later. */
		if (errno == ENOENT)
			return true;
	} else if (!S_ISREG(status.st_mode)) {
		say("%s is no file: give -o another name", path);
		return false;
	} else if (!access(path, W_OK)) {
		return true;
	}
	say("%s cannot be written: %s: give -o another name", path, strerror(errno));
	return false;
}

/* "folder/" of "folder/name"; free() it. */
static char *folder_of(const char *path)
{
	const char *name = basename(path);

	return name > path ? xstrndup(path, (size_t)(name - path)) : xstrdup("./");
}

/*
 * What the link @path names; NULL: it is no link, or in a folder as /tmp one of another user, which
 * the kernel may not follow either. free() it.
 */
static char *target_of(const char *path)
{
	int fd = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	char *folder = folder_of(path), to[PATH_MAX], *target = NULL;
	struct stat link, parent;
	ssize_t length = -1;

	if (fd >= 0 && !fstat(fd, &link) && S_ISLNK(link.st_mode) && !stat(folder, &parent) &&
	    (link.st_uid == geteuid() || link.st_uid == parent.st_uid ||
	     (parent.st_mode & (S_ISVTX | S_IWOTH)) != (S_ISVTX | S_IWOTH)))
		length = readlinkat(fd, "", to, sizeof(to));
	if (length > 0 && length < (ssize_t)sizeof(to))
		target = xformat("%s%.*s", *to == '/' ? "" : folder, (int)length, to);
	if (fd >= 0)
		close(fd);
	free(folder);
	return target;
}

static char *path_of_fd(int fd, const char *behind)
{
	return xformat("/proc/self/fd/%d%s", fd, behind);
}

/* The folder's path whatever the current one is; free() it. */
static char *full_path(int folder)
{
	char *link = path_of_fd(folder, ""), path[PATH_MAX];
	ssize_t length = readlink(link, path, sizeof(path));

	free(link);
	return xformat("%.*s/", (int)(length > 0 ? length : 0), path);
}

/* Makes a file of the folder, with the mode that others have. -1 with errno. */
static int make_temporary(const char *folder, char **path)
{
	mode_t mask = umask(0);
	int fd;

	umask(mask);
	*path = xformat("%s.hab-XXXXXX", folder);
	fd = mkostemp(*path, O_CLOEXEC);
	/* mkostemp() ignores the umask. */
	if (fd >= 0 && fchmod(fd, 0666 & ~mask))
		say_verbose("%s: %s", *path, strerror(errno));
	return fd;
}

bool output_file_open(struct output_file *output, const char *path)
{
	char *at, *target, *folder, *temporary = NULL;
	unsigned int links = 0;
	int fd = -1;

	*output = (struct output_file){ .path = path, .folder = -1 };
	if (!is_writable(path))
		return false;
	for (at = xstrdup(path); links < LINKS_MAX && (target = target_of(at)); links++) {
		free(at);
		at = target;
	}
	folder = folder_of(at);
	output->folder = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (output->folder >= 0)
		fd = make_temporary(folder, &temporary);
	if (fd < 0)
		say("%s cannot be written: its folder: %s: make it, or give -o another name", path,
		    strerror(errno));
	else
		unlink(temporary);
	if (fd >= 0)
		close(fd);
	free(temporary);
	free(folder);
	folder = output->folder < 0 ? NULL : full_path(output->folder);
	output->at = folder ? xformat("%s%s", folder, basename(at)) : NULL;
	free(folder);
	free(at);
	if (fd < 0)
		output_file_drop(output);
	return fd >= 0;
}

/* Closes @fd. False with errno. */
static bool fill(int fd, const void *data, size_t length)
{
	bool good = write_all(fd, data, length);
	int error = errno;

	/* Some file systems report a full disk only here. */
	if (close(fd) && good) {
		good = false;
		error = errno;
	}
	errno = error;
	return good;
}

/* False with errno; nothing is left then. */
static bool write_in(const char *folder, const char *name, const void *data, size_t length)
{
	char *temporary, *path = xformat("%s%s", folder, name);
	int fd = make_temporary(folder, &temporary), error;
	bool good = fd >= 0 && fill(fd, data, length) && !rename(temporary, path);

	error = errno;
	if (fd >= 0 && !good)
		unlink(temporary);
	free(temporary);
	free(path);
	errno = error;
	return good;
}

/* The path of what was written, or NULL. */
static char *write_elsewhere(const char *name, const void *data, size_t length)
{
	const char *const folders[] = { getenv("TMPDIR"), "/tmp" };
	unsigned int i;
	char *path;
	int fd;

	name += strlen(name) > NAME_KEPT ? strlen(name) - NAME_KEPT : 0;
	for (i = 0; i < ARRAY_SIZE(folders); i++) {
		if (!folders[i] || *folders[i] != '/')
			continue;
		path = xformat("%s/hab-XXXXXX-%s", folders[i], name);
		fd = mkostemps(path, (int)strlen(name) + 1, O_CLOEXEC);
		if (fd >= 0 && fill(fd, data, length))
			return path;
		if (fd >= 0)
			unlink(path);
		free(path);
	}
	return NULL;
}

/* The folder may have been removed and made again meanwhile, or moved. */
static bool write_at(struct output_file *output, const void *data, size_t length)
{
	const char *name = basename(output->at);
	char *folder = folder_of(output->at), *held, *now;
	bool good = write_in(folder, name, data, length), is_gone;

	is_gone = !good && (errno == ENOENT || errno == EACCES || errno == ENOTDIR);
	free(folder);
	if (!is_gone)
		return good;
	held = path_of_fd(output->folder, "/");
	good = write_in(held, name, data, length);
	free(held);
	if (good) {
		now = full_path(output->folder);
		output->written = xformat("%s%s", now, name);
		free(now);
		say("%s: its folder has been moved: the file is %s", output->path, output->written);
	}
	return good;
}

bool output_file_write(struct output_file *output, const void *data, size_t length)
{
	bool good = write_at(output, data, length);
	int error = errno;

	if (good && !output->written)
		output->written = xstrdup(output->path);
	if (good)
		return true;
	output->written = write_elsewhere(basename(output->path), data, length);
	if (output->written)
		say("%s could not be written: %s: the profile is in %s instead", output->path,
		    strerror(error), output->written);
	else
		say("%s could not be written: %s: it needs %zu bytes; nothing of it is left",
		    output->path, strerror(error), length);
	return false;
}

void output_file_drop(struct output_file *output)
{
	if (output->folder >= 0)
		close(output->folder);
	free(output->at);
	free(output->written);
	*output = (struct output_file){ .folder = -1 };
}
