/* SPDX-License-Identifier: GPL-2.0-only */
/* The driver's ioctls and the kernel's files, by system calls only. */
#ifndef HAB_SELFTESTS_RAW_H
#define HAB_SELFTESTS_RAW_H

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* -errno of an ioctl, or its result. */
static inline int call(int fd, unsigned long command, void *argument)
{
	int result = ioctl(fd, command, argument);

	return result < 0 ? -errno : result;
}

/* 0 or -errno. */
static inline int write_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	int err = 0;

	if (fd < 0)
		return -errno;
	if (write(fd, text, strlen(text)) < 0)
		err = -errno;
	close(fd);
	return err;
}

/* The number after @key and a space, or for "" the first in the file; -1: none. */
static inline long read_number(const char *path, const char *key)
{
	FILE *file = fopen(path, "re");
	char line[256];
	long number = -1;

	while (file && number < 0 && fgets(line, sizeof(line), file)) {
		if (!strncmp(line, key, strlen(key)))
			number = strtol(line + strlen(key), NULL, 10);
	}
	if (file)
		fclose(file);
	return number;
}

#endif /* HAB_SELFTESTS_RAW_H */
