/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What attaching has to know of an architecture. Another one is another file like x86_64.c, and
 * another part of this one.
 */
#ifndef HABRUN_MACHINE_H
#define HABRUN_MACHINE_H

#include <elfutils/libdwfl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/user.h>

#include "wire/attach_page.h"

/* All that a thread has in registers. */
struct machine_registers {
	struct user_regs_struct general;
	unsigned char vectors[HAB_ATTACH_STATE_BYTES];
	size_t vector_bytes;
};

/* Of a stopped thread. False: it has ended, or has more than fits. */
bool machine_read(pid_t tid, struct machine_registers *registers);
bool machine_write(pid_t tid, const struct machine_registers *registers);
bool machine_write_general(pid_t tid, const struct user_regs_struct *general);
bool machine_read_general(pid_t tid, struct user_regs_struct *general);

/* The thread is in a system call, and the kernel goes on with it. */
bool machine_is_in_call(const struct user_regs_struct *general);
/*
 * How well a thread can be borrowed that waits in the system call; -1: that runs. 0: best: most
 * such threads hold no lock. The worst ones may return with less than without attaching.
 * MACHINE_RANK_NEVER: it may not be interrupted in it, or can hardly be borrowed from it.
 */
#define MACHINE_RANK_NEVER 6
int machine_rank(long number, const uint64_t arguments[6]);
/* In one that waits for time, descriptors, processes, signals, or a futex by its bits. */
bool machine_waits(const struct user_regs_struct *general);
int64_t machine_result(const struct user_regs_struct *general);

/* The next instruction, at @at, is a system call. */
void machine_set_call(struct user_regs_struct *general, uint64_t at, long number,
		      const uint64_t arguments[6]);
/* The thread goes on at @at, on the stack that ends at @stack, in no system call. */
void machine_set_start(struct user_regs_struct *general, uint64_t at, uint64_t stack);
/*
 * A wait for events without end, or for data, has been interrupted, which no program expects
 * without a signal: the kernel makes it again, unless a signal's handler is run.
 */
void machine_wait_again(struct user_regs_struct *general);
/*
 * Where a signal's handler returns to, in the C library: the kernel then sets all registers as the
 * frame says that machine_make_frame() makes. 0: it is not in @code.
 */
int machine_find_return(const unsigned char *code, int bytes);
/* A frame for the registers and the mask; *at: its address, below the thread's stack. */
size_t machine_make_frame(const struct machine_registers *registers, uint64_t mask,
			  uint64_t returns, unsigned char *frame, size_t size, uint64_t *at);
/* The thread's stack begins with the frame. */
void machine_set_stack(struct user_regs_struct *general, uint64_t at);
/* As stub_entry needs them; an interrupted system call is made again. */
void machine_keep(const struct user_regs_struct *general, uint64_t *registers);
/* For libdw. */
bool machine_set_frame(const struct user_regs_struct *general, Dwfl_Thread *thread);
/* Offset of the first instruction for a system call in @code, or -1. */
int machine_find_call(const unsigned char *code, int bytes);
/* Its registers are known, and fit into HAB_ATTACH_STATE_BYTES. */
bool machine_is_known(void);

#if defined(__x86_64__)

/* For code that calls nothing else. The sixth argument is 0. */
static inline __attribute__((always_inline)) long machine_call(long number, long a, long b, long c,
								long d, long e)
{
	register long fourth __asm__("r10") = d, fifth __asm__("r8") = e, sixth __asm__("r9") = 0;
	long result;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(number), "D"(a), "S"(b), "d"(c), "r"(fourth), "r"(fifth), "r"(sixth)
			 : "rcx", "r11", "memory");
	return result;
}

#else

static inline long machine_call(long number, long a, long b, long c, long d, long e)
{
	return -1;
}

#endif

#endif /* HABRUN_MACHINE_H */
