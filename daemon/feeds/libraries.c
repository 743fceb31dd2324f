// SPDX-License-Identifier: GPL-2.0-only
/*
 * Finds libhab.so in the folders of the dynamic linker, without loading it. A file with several
 * names is added once: else its probes would count each event twice.
 */
#include "daemon/feeds/libraries.h"

#include <sys/stat.h>

#include "daemon/shared/util.h"

#define NAME "libhab.so.0"

#if defined(__x86_64__)
#define TRIPLET "x86_64-linux-gnu"
#elif defined(__aarch64__)
#define TRIPLET "aarch64-linux-gnu"
#else
#define TRIPLET "."
#endif

static const char *const usual[] = {
	"/usr/local/lib/" TRIPLET "/" NAME, "/usr/local/lib/" NAME, "/usr/local/lib64/" NAME,
	"/usr/lib/" TRIPLET "/" NAME,	    "/usr/lib/" NAME,	    "/usr/lib64/" NAME,
	"/lib/" TRIPLET "/" NAME,	    "/lib/" NAME,	    "/lib64/" NAME,
};

static bool is_there(const struct libraries *libraries, const struct stat *file)
{
	struct stat other;
	unsigned int i;

	for (i = 0; i < libraries->nr; i++)
		if (!stat(libraries->paths[i], &other) && other.st_dev == file->st_dev &&
		    other.st_ino == file->st_ino)
			return true;
	return false;
}

bool libraries_add(struct libraries *libraries, const char *path)
{
	struct stat file;

	if (!stat(path, &file) && is_there(libraries, &file))
		return true;
	if (libraries->nr == LIBRARIES_MAX) {
		say("--library %s: at most %d libraries can be followed", path, LIBRARIES_MAX);
		return false;
	}
	libraries->paths[libraries->nr++] = path;
	return true;
}

unsigned int libraries_find(struct libraries *libraries)
{
	struct stat file;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(usual); i++)
		if (!stat(usual[i], &file) && S_ISREG(file.st_mode))
			libraries_add(libraries, usual[i]);
	return libraries->nr;
}
