// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * prctl() and syscall() as the program calls them. A filter of system calls that it sets after its
 * start is seen there: a program without privilege has to set PR_SET_NO_NEW_PRIVS before. One that
 * makes these calls by instructions of its own is not seen.
 */
#include <linux/seccomp.h>
#include <stdarg.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "inside/malloc/interpose.h"
#include "inside/malloc/real.h"
#include "inside/client.h"
#include "inside/sandbox.h"

/* Libraries ask for features by calls that fail, with arguments that are wrong. */
static void look_at_prctl(int option, unsigned long argument, unsigned long filter)
{
	/* The clock would end the program. */
	if (option == PR_SET_TSC && argument == PR_TSC_SIGSEGV)
		hab_sandbox_enter(false);
	if (option != PR_SET_NO_NEW_PRIVS &&
	    (option != PR_SET_SECCOMP || (argument == SECCOMP_MODE_FILTER && !filter)))
		return;
	/* A child by vfork() prepares for itself, and has no filter yet. */
	if (option == PR_SET_NO_NEW_PRIVS && !hab_sandbox_is_entered() &&
	    hab_client_is_vfork_child())
		return;
	hab_attach_leave();
	hab_sandbox_enter(option == PR_SET_SECCOMP && argument == SECCOMP_MODE_STRICT);
}

static void look_at_seccomp(long operation, long flags, long filter)
{
	if (operation == SECCOMP_SET_MODE_FILTER && filter) {
		hab_attach_leave();
		hab_sandbox_enter(false);
	}
	if (operation == SECCOMP_SET_MODE_STRICT && !flags && !filter)
		hab_sandbox_enter(true);
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
	look_at_prctl(option, argument[0], argument[1]);
	return (int)syscall(SYS_prctl, option, argument[0], argument[1], argument[2], argument[3]);
}

#if defined(__x86_64__) || defined(__aarch64__)

/* What syscall() is to jump to. */
__attribute__((used)) static void *pass_on(long number, long a, long b, long c)
{
	if (number == SYS_prctl)
		look_at_prctl((int)a, (unsigned long)b, (unsigned long)c);
	if (number == SYS_seccomp)
		look_at_seccomp(a, b, c);
	/* A handler of a signal may be here while hab_real_find() runs. */
	return hab_real.syscall ? (void *)hab_real.syscall : hab_real_next("syscall");
}

/*
 * syscall() of libc gets the registers and the stack as they are: how many arguments there are only
 * the caller knows, and clone() may return with another stack.
 */
#ifdef __x86_64__
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
#else
__asm__(".pushsection .text\n"
	".globl syscall\n"
	".type syscall, %function\n"
	"syscall:\n"
	"	.cfi_startproc\n"
	"	hint #34\n" /* bti c */
	"	stp x29, x30, [sp, #-80]!\n"
	"	.cfi_def_cfa_offset 80\n"
	"	.cfi_offset 29, -80\n"
	"	.cfi_offset 30, -72\n"
	"	mov x29, sp\n"
	"	stp x0, x1, [sp, #16]\n"
	"	stp x2, x3, [sp, #32]\n"
	"	stp x4, x5, [sp, #48]\n"
	"	str x6, [sp, #64]\n"
	"	bl pass_on\n"
	"	mov x16, x0\n"
	"	ldp x0, x1, [sp, #16]\n"
	"	ldp x2, x3, [sp, #32]\n"
	"	ldp x4, x5, [sp, #48]\n"
	"	ldr x6, [sp, #64]\n"
	"	ldp x29, x30, [sp], #80\n"
	"	.cfi_restore 29\n"
	"	.cfi_restore 30\n"
	"	.cfi_def_cfa_offset 0\n"
	"	br x16\n"
	"	.cfi_endproc\n"
	".size syscall, . - syscall\n"
	".popsection\n");
#endif

#endif
