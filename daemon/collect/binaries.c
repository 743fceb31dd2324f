// SPDX-License-Identifier: GPL-2.0-only
/*
 * The binaries that stacks run through.
 *
 * Symbols can be read after both the process and the file's name are gone: a file is opened at
 * first sight. When no process has it mapped any more, and if its path still leads to it, it is
 * closed, and opened again by that path when names are needed. Several files may have one build id.
 */
#include "daemon/collect/binaries.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "daemon/shared/util.h"
#include "daemon/shared/elf_reader.h"
#include "daemon/collect/interpreter_names.h"

struct binaries {
	struct binary *table[BINARIES_MAX]; /* NULL: free */
	unsigned int nr_numbers;	    /* ever used */
	uint64_t serial;
	struct names *names;
};

struct binaries *binaries_new(void)
{
	/* In the order of BINARY_UNKNOWN, BINARY_JIT and BINARY_NAMES. */
	static const char *const names[] = { BINARY_UNKNOWN_NAME, "[anon]",	   "[jit]",
					     "[vdso]",		  "[vsyscall]",	   "[stack]",
					     "[heap]",		  "[uprobes]",	   BINARY_NAMES_NAME,
					     BINARY_CUT_NAME };
	struct binaries *binaries = xcalloc(1, sizeof(*binaries));
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(names); i++)
		binaries_get(binaries, binaries_add_name(binaries, names[i]))->fixed = true;
	binaries->names = names_new();
	return binaries;
}

struct names *binaries_names(struct binaries *binaries)
{
	return binaries->names;
}

void binary_ref(struct binary *binary)
{
	atomic_fetch_add(&binary->references, 1);
}

void binary_unref(struct binary *binary)
{
	if (atomic_fetch_sub(&binary->references, 1) != 1)
		return;
	if (binary->file.fd >= 0)
		close(binary->file.fd);
	free(binary->path);
	free(binary->closed);
	free(binary);
}

void binaries_free(struct binaries *binaries)
{
	unsigned int i;

	if (!binaries)
		return;
	for (i = 0; i < binaries->nr_numbers; i++)
		if (binaries->table[i])
			binary_unref(binaries->table[i]);
	names_free(binaries->names);
	free(binaries);
}

static struct binary *new_binary(const char *path, uint64_t serial)
{
	struct binary *binary = xcalloc(1, sizeof(*binary));

	binary->file.fd = -1;
	binary->serial = serial;
	binary->references = 1;
	binary->path = xstrdup(path);
	clean_string(binary->path);
	binary->name = basename(binary->path);
	return binary;
}

/* The same binary with that file, which is taken over. */
static struct binary *same_binary(const struct binary *old, const struct binary_file *file,
				  const char *path)
{
	struct binary *binary = new_binary(path, old->serial);

	binary->file = *file;
	binary->file.executable |= old->file.executable;
	return binary;
}

/* The old one is left to those that have a reference. */
static void replace(struct binaries *binaries, unsigned int number, struct binary *binary)
{
	binary_unref(binaries->table[number]);
	binaries->table[number] = binary;
}

/* The number of a new binary; BINARIES_MAX if there is no room for it. */
static unsigned int add(struct binaries *binaries, const char *path)
{
	unsigned int number = 0;

	if (!limits_take(LIMITED_BINARIES, 1))
		return BINARIES_MAX;
	while (binaries->table[number])
		number++;
	binaries->table[number] = new_binary(path, ++binaries->serial);
	if (number >= binaries->nr_numbers)
		binaries->nr_numbers = number + 1;
	return number;
}

unsigned int binaries_add_name(struct binaries *binaries, const char *name)
{
	const struct binary *binary;
	unsigned int i;

	for (i = 0; i < binaries->nr_numbers; i++) {
		binary = binaries->table[i];
		if (binary && binary->file.fd < 0 && !binary->file.inode &&
		    !strcmp(binary->path, name))
			return i;
	}
	i = add(binaries, name);
	return i == BINARIES_MAX ? BINARY_UNKNOWN : i;
}

static bool same_file(const struct binary_file *one, const struct binary_file *other)
{
	return one->inode && one->device == other->device && one->inode == other->inode &&
	       one->size == other->size && one->changed.tv_sec == other->changed.tv_sec &&
	       one->changed.tv_nsec == other->changed.tv_nsec &&
	       one->build_id_length == other->build_id_length &&
	       !memcmp(one->build_id, other->build_id, sizeof(one->build_id));
}

static bool has_id(const struct binary *binary, const uint8_t *build_id)
{
	return binary && binary->file.build_id_length &&
	       !memcmp(binary->file.build_id, build_id, HAB_BUILD_ID_LEN);
}

/*
 * A file with that build id, of several the one at @path, or the entry that has no file yet;
 * BINARIES_MAX if there is none. Short ids are padded with zeros, as by the kernel.
 */
static unsigned int find_id(const struct binaries *binaries, const uint8_t *build_id,
			    const char *path)
{
	unsigned int i, found = BINARIES_MAX;
	const struct binary *binary;

	for (i = 0; i < binaries->nr_numbers; i++) {
		binary = binaries->table[i];
		if (!has_id(binary, build_id))
			continue;
		if (binary->file.inode && path && !strcmp(binary->path, path))
			return i;
		if (found == BINARIES_MAX ||
		    (binary->file.inode && !binaries->table[found]->file.inode))
			found = i;
	}
	return found;
}

/* BINARIES_MAX if there is none. */
static unsigned int find_file(const struct binaries *binaries, const struct binary_file *file)
{
	const struct binary *binary;
	unsigned int i;

	for (i = 0; i < binaries->nr_numbers; i++)
		if (binaries->table[i] && same_file(&binaries->table[i]->file, file))
			return i;
	if (!file->build_id_length)
		return BINARIES_MAX;
	for (i = 0; i < binaries->nr_numbers; i++) {
		binary = binaries->table[i];
		/* One with a descriptor has the installed debug file, where offsets are others. */
		if (has_id(binary, file->build_id) && !binary->file.inode && binary->file.fd < 0)
			return i;
	}
	return BINARIES_MAX;
}

unsigned int binaries_add_file(struct binaries *binaries, const struct binary_file *file,
			       const char *path)
{
	unsigned int number = find_file(binaries, file);
	struct binary *binary;

	if (number == BINARIES_MAX)
		number = add(binaries, path);
	if (number == BINARIES_MAX) {
		close(file->fd);
		return BINARY_UNKNOWN;
	}
	binary = binaries->table[number];
	if (binary->file.fd >= 0 && (binary->file.executable || !file->executable) &&
	    (!binary->file.remote || file->remote)) {
		close(file->fd);
		return number;
	}
	/* It was closed, or known by its build id or a server's file, or is a program, too. */
	replace(binaries, number, same_binary(binary, file, path));
	return number;
}

unsigned int binaries_find_id(struct binaries *binaries, const uint8_t *build_id,
			      unsigned int length, const char *path)
{
	unsigned int number = find_id(binaries, build_id, path);
	char name[32];
	struct binary_file *file;

	if (number != BINARIES_MAX)
		return number;
	snprintf(name, sizeof(name), "[build-id %02x%02x%02x%02x]", build_id[0], build_id[1],
		 build_id[2], build_id[3]);
	number = add(binaries, path ? path : name);
	if (number == BINARIES_MAX)
		return BINARY_UNKNOWN;
	file = &binaries->table[number]->file;
	memcpy(file->build_id, build_id, HAB_BUILD_ID_LEN);
	file->build_id_length = length;
	/* The symbols of a file that was not seen mapped may still be installed. */
	file->fd = build_id_open_debug(build_id, length);
	return number;
}

struct binary *binaries_get(struct binaries *binaries, unsigned int number)
{
	struct binary *binary = number < BINARIES_MAX ? binaries->table[number] : NULL;

	return binary ? binary : binaries->table[BINARY_UNKNOWN];
}

/*
 * Opens a path that has no link in it: another user who owns a folder of it cannot lead it to a
 * place that makes this process wait. -1: another file is there.
 */
static int open_same(const struct binary_file *file, const char *path, uint64_t flags,
		     uint64_t resolve)
{
	struct open_how how = { .flags = flags | O_CLOEXEC,
				.resolve = resolve | RESOLVE_NO_SYMLINKS };
	int fd = (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof(how));
	struct binary_file found = *file;
	struct stat status;

	if (fd < 0)
		return -1;
	if (!fstat(fd, &status) && S_ISREG(status.st_mode)) {
		found.device = status.st_dev;
		found.inode = status.st_ino;
		found.size = status.st_size;
		found.changed = status.st_mtim;
		if (same_file(file, &found))
			return fd;
	}
	close(fd);
	return -1;
}

int binary_open(const struct binary *binary)
{
	if (!binary->closed)
		return -1;
	return open_same(&binary->file, binary->closed, O_RDONLY | O_NOCTTY | O_NONBLOCK, 0);
}

/* Where this process finds a file that it has open. NULL: not known. free() it. */
static char *path_of(int fd)
{
	char *link = xformat("/proc/self/fd/%d", fd), path[PATH_MAX];
	ssize_t length = readlink(link, path, sizeof(path));

	free(link);
	return length > 0 && (size_t)length < sizeof(path) ? xstrndup(path, (size_t)length) : NULL;
}

static void close_file(struct binaries *binaries, unsigned int number)
{
	const struct binary *old = binaries->table[number];
	struct binary_file file = old->file;
	char *path = path_of(file.fd);
	struct binary *binary;
	int fd = path ? open_same(&file, path, O_PATH, file.remote ? RESOLVE_CACHED : 0) : -1;

	if (fd < 0) {
		free(path);
		return;
	}
	close(fd);
	file.fd = -1;
	binary = same_binary(old, &file, old->path);
	binary->closed = path;
	replace(binaries, number, binary);
}

void binaries_close_unmapped(struct binaries *binaries, const bool mapped[BINARIES_MAX])
{
	struct binary *binary;
	unsigned int i;

	for (i = 0; i < binaries->nr_numbers; i++) {
		binary = binaries->table[i];
		if (!binary || binary->file.fd < 0 || !binary->file.changed.tv_sec)
			continue;
		if (binary->unmapped && !mapped[i])
			close_file(binaries, i);
		else
			binary->unmapped = !mapped[i];
	}
}

bool binaries_have_open(const struct binaries *binaries, uint64_t serial)
{
	unsigned int i;

	for (i = 0; i < binaries->nr_numbers; i++)
		if (binaries->table[i] && binaries->table[i]->serial == serial)
			return binaries->table[i]->file.fd >= 0;
	return false;
}

bool binaries_are_crowded(void)
{
	return limits_own.used[LIMITED_BINARIES] >= BINARIES_MAX * 7 / 8;
}

unsigned int binaries_evict(struct binaries *binaries, const bool used[BINARIES_MAX])
{
	unsigned int i, nr = 0;
	struct binary *binary;

	for (i = 0; i < binaries->nr_numbers; i++) {
		binary = binaries->table[i];
		if (!binary || binary->fixed || used[i])
			continue;
		binaries->table[i] = NULL;
		nr++;
		binary_unref(binary);
	}
	limits_give_back(LIMITED_BINARIES, nr);
	return nr;
}
