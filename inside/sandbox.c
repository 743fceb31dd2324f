// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Whether there is a filter is read from /proc: to ask the kernel for it by prctl() is a call that
 * a filter may end the process for.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "inside/descriptor.h"
#include "inside/sandbox.h"
#include "inside/unwind.h"

static bool entered, strict;

bool hab_sandbox_is_entered(void)
{
	return __atomic_load_n(&entered, __ATOMIC_RELAXED);
}

bool hab_sandbox_is_strict(void)
{
	return __atomic_load_n(&strict, __ATOMIC_RELAXED);
}

void hab_sandbox_enter(bool strictly)
{
	if (strictly)
		__atomic_store_n(&strict, true, __ATOMIC_RELAXED);
	__atomic_store_n(&entered, true, __ATOMIC_RELAXED);
	hab_unwind_try_no_pages();
}

/* The number behind @key in @text, or -1: also if it may be cut off. */
static long number_of(const char *text, const char *key)
{
	const char *at = strstr(text, key);
	char *end;
	long number = at ? strtol(at + strlen(key), &end, 10) : -1;

	return at && *end == '\n' ? number : -1;
}

bool hab_sandbox_has_filter(long allowed, bool may_move)
{
	/* Not on the stack, of which a coroutine has little; one thread at a time connects. */
	static char text[4096];
	long filters;
	ssize_t length;
	int fd = (int)syscall(SYS_openat, AT_FDCWD, "/proc/thread-self/status",
			      O_RDONLY | O_CLOEXEC);

	if (may_move)
		fd = hab_descriptor_move(fd);
	if (fd < 0)
		return true;
	length = syscall(SYS_read, fd, text, sizeof(text) - 1);
	syscall(SYS_close, fd);
	if (length <= 0)
		return true;
	text[length] = 0;
	filters = number_of(text, "\nSeccomp_filters:");
	/* Before Linux 5.9 it is only known whether there are any. */
	if (filters < 0)
		filters = number_of(text, "\nSeccomp:") ? allowed + 1 : 0;
	return filters > allowed;
}
