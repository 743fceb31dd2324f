/* SPDX-License-Identifier: GPL-2.0-only */
/* Programs that live until habrun or habd has looked at them, however slow it is. */
#ifndef HAB_SELFTESTS_DAEMON_LOOKED_AT_H
#define HAB_SELFTESTS_DAEMON_LOOKED_AT_H

#include <sys/inotify.h>
#include <unistd.h>

/* Until others have opened a file of this program twice: then whoever did the first has seen it. */
static inline void wait_until_opened(const char *file)
{
	int fd = inotify_init(), times;
	char events[4096];

	if (inotify_add_watch(fd, file, IN_OPEN) < 0)
		return;
	for (times = 0; times < 2 && read(fd, events, sizeof(events)) > 0; times++)
		;
	close(fd);
}

static inline void wait_until_looked_at(void)
{
	wait_until_opened("/proc/self/exe");
}

/* Until its standard input ends. */
static inline void wait_until_told(void)
{
	char byte;

	while (read(STDIN_FILENO, &byte, 1) > 0)
		;
}

#endif /* HAB_SELFTESTS_DAEMON_LOOKED_AT_H */
