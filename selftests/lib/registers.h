/* SPDX-License-Identifier: GPL-2.0-only */
/* The program counter of a signal's context, and of a thread that a tracer has stopped. */
#ifndef SELFTESTS_REGISTERS_H
#define SELFTESTS_REGISTERS_H

#include <elf.h>
#include <stdint.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <ucontext.h>

#ifdef __x86_64__
#define PC_OF_CONTEXT(context) ((context)->uc_mcontext.gregs[REG_RIP])
#define PC_OF_THREAD(registers) ((registers)->rip)
#else
#define PC_OF_CONTEXT(context) ((context)->uc_mcontext.pc)
#define PC_OF_THREAD(registers) ((registers)->pc)
#endif

/* 0 if the registers cannot be read. */
static inline uintptr_t pc_of_stopped(pid_t thread)
{
	struct user_regs_struct registers;
	struct iovec all = { &registers, sizeof(registers) };

	if (ptrace(PTRACE_GETREGSET, thread, NT_PRSTATUS, &all))
		return 0;
	return PC_OF_THREAD(&registers);
}

#endif /* SELFTESTS_REGISTERS_H */
