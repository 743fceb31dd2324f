// SPDX-License-Identifier: GPL-2.0-only
/*
 * The files that habctl and habrun write: each appears under its name when it is complete; the
 * numbered files of one recording stay within limits.
 *
 * A folder that cannot be written is found before a recording: the temporary file is made in it
 * then, and renamed once complete. The limit of bytes of numbered files holds while a file is
 * written, too, and after habctl was killed and started again: the oldest files are removed before
 * the next one is written, and files of the same name that exist already are part of the recording.
 */
#include "daemon/shared/output_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/shared/util.h"

#define DIGITS 6

const struct output_format *output_format_of(const char *path)
{
	static const struct output_format formats[] = {
		{ ".pb.gz", "pprof", "habctl report", { "both", "both" } },
		{ ".folded", "folded", "less", { "allocated", "in-use" } },
		{ ".svg", "svg", "xdg-open", { "allocated", "both" } },
		{ ".html", "html", "xdg-open", { "both", "both" } },
		{ ".jfr", "jfr", "jfr summary", { "allocated", "allocated" } },
	};
	const struct output_format *format;
	const char *name = basename(path);
	size_t length = strlen(name), end;

	for (format = formats; format < formats + ARRAY_SIZE(formats); format++) {
		end = strlen(format->suffix);
		if (length > end && !strcmp(name + length - end, format->suffix))
			return format;
	}
	say("%s: the suffix says the format: it must be .pb.gz, .folded, .svg, .html or .jfr",
	    path);
	return NULL;
}

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

static char *path_of(const struct numbered_files *files, uint64_t number)
{
	return xformat("%s-%0*" PRIu64 "%s", files->name, DIGITS, number, files->suffix);
}

/* The number in a file's name; 0: the file is not of this recording. */
static uint64_t number_of(const struct numbered_files *files, const char *base, const char *file)
{
	size_t length = strlen(base), suffix = strlen(files->suffix), size = strlen(file);
	char digits[24];
	uint64_t number;

	if (size < length + 1 + DIGITS + suffix || strncmp(file, base, length) != 0 ||
	    file[length] != '-' || strcmp(file + size - suffix, files->suffix) != 0)
		return 0;
	size -= length + 1 + suffix;
	if (size >= sizeof(digits))
		return 0;
	memcpy(digits, file + length + 1, size);
	digits[size] = 0;
	return parse_number(digits, 1, UINT64_MAX - 1, &number) ? number : 0;
}

static void add_file(struct numbered_files *files, uint64_t number, uint64_t size)
{
	files->table = xgrow(files->table, files->count, &files->room, sizeof(*files->table));
	files->table[files->count++] = (struct numbered_file){ number, size };
	files->size += size;
}

static int compare(const void *one, const void *two)
{
	const struct numbered_file *first = one, *second = two;

	return first->number < second->number ? -1 : first->number > second->number;
}

static bool find_files(struct numbered_files *files)
{
	const char *base = basename(files->name);
	char *folder = base > files->name ? xstrndup(files->name, (size_t)(base - files->name)) :
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
		number = number_of(files, base, entry->d_name);
		if (number && !fstatat(dirfd(directory), entry->d_name, &status, 0) &&
		    S_ISREG(status.st_mode))
			add_file(files, number, (uint64_t)status.st_size);
	}
	closedir(directory);
	free(folder);
	if (files->count)
		qsort(files->table, files->count, sizeof(*files->table), compare);
	return true;
}

bool numbered_files_begin(struct numbered_files *files, const char *path, const char *suffix,
			  uint64_t max_size, uint64_t max_files)
{
	memset(files, 0, sizeof(*files));
	files->suffix = suffix;
	files->name = xstrndup(path, strlen(path) - strlen(suffix));
	files->max_size = max_size;
	files->max_files = max_files;
	if (find_files(files))
		return true;
	numbered_files_end(files);
	return false;
}

void numbered_files_end(struct numbered_files *files)
{
	free(files->name);
	free(files->table);
	memset(files, 0, sizeof(*files));
}

static bool remove_oldest(struct numbered_files *files)
{
	char *path = path_of(files, files->table[0].number);
	bool good = !unlink(path) || errno == ENOENT;

	if (!good)
		say("%s cannot be removed: %s: the recording would exceed its limit", path,
		    strerror(errno));
	free(path);
	if (!good)
		return false;
	files->size -= files->table[0].size;
	files->count--;
	memmove(files->table, files->table + 1, files->count * sizeof(*files->table));
	return true;
}

bool numbered_files_write(struct numbered_files *files, const void *data, size_t length)
{
	uint64_t number = files->count ? files->table[files->count - 1].number + 1 : 1;
	struct output_file output;
	char *path;
	bool good;

	if (files->max_size && length > files->max_size) {
		say("a profile of %zu bytes is not written: --max-size allows all files together %" PRIu64,
		    length, files->max_size);
		return false;
	}
	while (files->count && ((files->max_files && files->count >= files->max_files) ||
				(files->max_size && files->size + length > files->max_size)))
		if (!remove_oldest(files))
			return false;
	path = path_of(files, number);
	good = output_file_open(&output, path) && output_file_write(&output, data, length);
	free(path);
	if (good)
		add_file(files, number, length);
	return good;
}

char *numbered_files_newest(const struct numbered_files *files)
{
	return path_of(files, files->table[files->count - 1].number);
}
