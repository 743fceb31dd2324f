// SPDX-License-Identifier: GPL-2.0-only
/*
 * Prints the name of each file of its arguments that somebody opens, until it is ended. A file that
 * is opened as a path only is not.
 */
#include <stdio.h>
#include <sys/inotify.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	char buffer[4096] __attribute__((aligned(8)));
	const struct inotify_event *event;
	int fd = inotify_init1(IN_CLOEXEC), i;
	ssize_t length, at;

	for (i = 1; i < argc; i++)
		if (inotify_add_watch(fd, argv[i], IN_OPEN) != i)
			return 1;
	printf("watching\n");
	fflush(stdout);
	while ((length = read(fd, buffer, sizeof(buffer))) > 0) {
		for (at = 0; at < length; at += (ssize_t)(sizeof(*event) + event->len)) {
			event = (const void *)(buffer + at);
			if (event->wd > 0 && event->wd < argc)
				printf("opened %s\n", argv[event->wd]);
		}
		fflush(stdout);
	}
	return 1;
}
