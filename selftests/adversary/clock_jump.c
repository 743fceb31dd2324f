// SPDX-License-Identifier: GPL-2.0-only
/*
 * A library to be preloaded: the clock of this process jumps, and no other's. The file that
 * HAB_CLOCK_JUMP names has the seconds, as text.
 */
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <fcntl.h>

static long jump(void)
{
	const char *path = getenv("HAB_CLOCK_JUMP");
	int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	char text[32] = "";

	if (fd < 0)
		return 0;
	if (read(fd, text, sizeof(text) - 1) < 0)
		text[0] = 0;
	close(fd);
	return strtol(text, NULL, 10);
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
	int result = (int)syscall(SYS_clock_gettime, clock, now);

	if (!result && clock == CLOCK_REALTIME)
		now->tv_sec += jump();
	return result;
}

time_t time(time_t *now)
{
	struct timespec is;

	clock_gettime(CLOCK_REALTIME, &is);
	if (now)
		*now = is.tv_sec;
	return is.tv_sec;
}
