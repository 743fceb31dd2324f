// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Filters of system calls. A filter that the program sets after its start is seen in its call of
 * prctl(): a program without privilege has to set PR_SET_NO_NEW_PRIVS before.
 */
#include <fcntl.h>
#include <linux/seccomp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lib/malloc/sandbox.h"
#include "lib/telemetry/unwind.h"

static bool entered, strict;

bool hab_sandbox_is_entered(void)
{
	return __atomic_load_n(&entered, __ATOMIC_RELAXED);
}

bool hab_sandbox_is_strict(void)
{
	return __atomic_load_n(&strict, __ATOMIC_RELAXED);
}

__attribute__((visibility("default"))) int prctl(int option, ...)
{
	unsigned long argument[4];
	va_list list;
	int i;

	va_start(list, option);
	for (i = 0; i < 4; i++)
		argument[i] = va_arg(list, unsigned long);
	va_end(list);
	if (option == PR_SET_SECCOMP && argument[0] == SECCOMP_MODE_STRICT)
		__atomic_store_n(&strict, true, __ATOMIC_RELAXED);
	if (option == PR_SET_NO_NEW_PRIVS || option == PR_SET_SECCOMP) {
		__atomic_store_n(&entered, true, __ATOMIC_RELAXED);
		hab_unwind_try_no_pages();
	}
	return (int)syscall(SYS_prctl, option, argument[0], argument[1], argument[2], argument[3]);
}

/* The number behind @key in @text, or -1. */
static long number_of(const char *text, const char *key)
{
	const char *at = strstr(text, key);

	return at ? strtol(at + strlen(key), NULL, 10) : -1;
}

bool hab_sandbox_has_filter(long allowed)
{
	long filters;
	char text[4096];
	ssize_t length;
	int fd = (int)syscall(SYS_openat, AT_FDCWD, "/proc/self/status", O_RDONLY | O_CLOEXEC);

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
