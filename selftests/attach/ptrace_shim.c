// SPDX-License-Identifier: GPL-2.0-only
/*
 * Loaded into habrun: before its request REQUEST of ptrace() number N it sends SIGNAL to the traced
 * thread, or, if SIGNAL is 0, ends itself by SIGKILL. HAB_SHIM=REQUEST:N:SIGNAL, in decimal.
 */
#include <dlfcn.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

long ptrace(int request, ...);
long ptrace(int request, ...)
{
	static long (*real)(int, pid_t, void *, void *);
	static int count;
	const char *shim = getenv("HAB_SHIM");
	int wanted, number, signal;
	void *address, *data;
	pid_t thread;
	va_list list;

	va_start(list, request);
	thread = va_arg(list, pid_t);
	address = va_arg(list, void *);
	data = va_arg(list, void *);
	va_end(list);
	if (!real)
		real = (long (*)(int, pid_t, void *, void *))dlsym(RTLD_NEXT, "ptrace");
	if (shim && sscanf(shim, "%d:%d:%d", &wanted, &number, &signal) == 3 && wanted == request &&
	    ++count == number) {
		if (signal)
			syscall(SYS_tkill, thread, signal);
		else
			kill(getpid(), SIGKILL);
	}
	return real(request, thread, address, data);
}
