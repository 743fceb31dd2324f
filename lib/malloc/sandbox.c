// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Filters of system calls. A filter that the program sets after its start is seen in its call of
 * prctl() or syscall(): a program without privilege has to set PR_SET_NO_NEW_PRIVS before. One that
 * makes these calls by instructions of its own is not seen; to ask the kernel would be a system
 * call, which a filter may end the process for.
 */
#include <fcntl.h>
#include <linux/seccomp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lib/malloc/descriptor.h"
#include "lib/malloc/real.h"
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

static void enter(bool strictly)
{
	if (strictly)
		__atomic_store_n(&strict, true, __ATOMIC_RELAXED);
	__atomic_store_n(&entered, true, __ATOMIC_RELAXED);
	hab_unwind_try_no_pages();
}

static void look_at_prctl(int option, unsigned long argument)
{
	if (option == PR_SET_NO_NEW_PRIVS || option == PR_SET_SECCOMP)
		enter(option == PR_SET_SECCOMP && argument == SECCOMP_MODE_STRICT);
}

/* Libraries ask for features by calls that fail, with arguments that are wrong. */
static void look_at_seccomp(long operation, long flags, long filter)
{
	if (operation == SECCOMP_SET_MODE_FILTER && filter)
		enter(false);
	if (operation == SECCOMP_SET_MODE_STRICT && !flags && !filter)
		enter(true);
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
	look_at_prctl(option, argument[0]);
	return (int)syscall(SYS_prctl, option, argument[0], argument[1], argument[2], argument[3]);
}

#ifdef __x86_64__

/* What syscall() is to jump to. */
__attribute__((used)) static void *pass_on(long number, long a, long b, long c)
{
	if (number == SYS_prctl)
		look_at_prctl((int)a, (unsigned long)b);
	if (number == SYS_seccomp)
		look_at_seccomp(a, b, c);
	/* A handler of a signal may be here while hab_real_find() runs. */
	return hab_real.syscall ? (void *)hab_real.syscall : hab_real_next("syscall");
}

/*
 * syscall() of libc gets the registers and the stack as they are: how many arguments there are only
 * the caller knows, and clone() may return with another stack.
 */
__asm__(".pushsection .text\n"
	".globl syscall\n"
	".type syscall, @function\n"
	"syscall:\n"
	"	.cfi_startproc\n"
	"	endbr64\n"
	"	push %rdi\n	.cfi_adjust_cfa_offset 8\n"
	"	push %rsi\n	.cfi_adjust_cfa_offset 8\n"
	"	push %rdx\n	.cfi_adjust_cfa_offset 8\n"
	"	push %rcx\n	.cfi_adjust_cfa_offset 8\n"
	"	push %r8\n	.cfi_adjust_cfa_offset 8\n"
	"	push %r9\n	.cfi_adjust_cfa_offset 8\n"
	"	sub $8, %rsp\n	.cfi_adjust_cfa_offset 8\n"
	"	call pass_on\n"
	"	add $8, %rsp\n	.cfi_adjust_cfa_offset -8\n"
	"	pop %r9\n	.cfi_adjust_cfa_offset -8\n"
	"	pop %r8\n	.cfi_adjust_cfa_offset -8\n"
	"	pop %rcx\n	.cfi_adjust_cfa_offset -8\n"
	"	pop %rdx\n	.cfi_adjust_cfa_offset -8\n"
	"	pop %rsi\n	.cfi_adjust_cfa_offset -8\n"
	"	pop %rdi\n	.cfi_adjust_cfa_offset -8\n"
	"	jmp *%rax\n"
	"	.cfi_endproc\n"
	".size syscall, . - syscall\n"
	".popsection\n");

#endif

/* The number behind @key in @text, or -1. */
static long number_of(const char *text, const char *key)
{
	const char *at = strstr(text, key);

	return at ? strtol(at + strlen(key), NULL, 10) : -1;
}

bool hab_sandbox_has_filter(long allowed)
{
	/* Not on the stack, of which a coroutine has little; one thread at a time connects. */
	static char text[4096];
	long filters;
	ssize_t length;
	int fd = hab_descriptor_move(
		(int)syscall(SYS_openat, AT_FDCWD, "/proc/self/status", O_RDONLY | O_CLOEXEC));

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
