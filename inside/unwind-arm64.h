/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What unwind.c knows of arm64; it is a part of that file. */
#ifndef HAB_LIB_UNWIND_ARM64_H
#define HAB_LIB_UNWIND_ARM64_H

/*
 * Without the bits by which pointer authentication signs a return address. The instruction is
 * XPACLRI, which does nothing on CPUs without.
 */
static uintptr_t strip(uintptr_t pc)
{
	register uintptr_t lr __asm__("x30") = pc;

	__asm__("hint #7" : "+r"(lr));
	return lr;
}

#define FIRST_FRAME_IS_CALLERS false
/* The end of a frame is anywhere above its frame pointer, which points to the saved one. */
#define FP_IS_AT_SAVED_FP true

/* The place in the function that has this inline: its own row leads to the caller. */
static inline __attribute__((always_inline)) struct frame first_frame(void)
{
	struct frame frame = { .interrupted = true };

	__asm__ volatile("adr %0, .\n\tmov %1, sp\n\tmov %2, x29"
			 : "=r"(frame.pc), "=r"(frame.sp), "=r"(frame.fp));
	return frame;
}

/*
 * The kernel's code to which handlers of signals return has no table: "mov x8, #139; svc #0". It
 * runs, so it stays while it is read; @pc is not guessed.
 */
static bool find_end(uintptr_t pc, struct hab_unwind_row *row)
{
	static const uint32_t leave_handler[2] = { 0xd2801168, 0xd4000001 };
	uint64_t words[2] = { 0 };

	if (read_code(pc, words, 2) < 2 ||
	    memcmp((const uint8_t *)words + pc % sizeof(*words), leave_handler, sizeof(leave_handler)))
		return false;
	*row = (struct hab_unwind_row){ .base = HAB_UNWIND_SIGNAL };
	return true;
}

/* The kernel has put what it tells of the signal, and the registers, on the stack. */
static bool leave_signal(struct frame *frame)
{
	uintptr_t registers =
		frame->sp + sizeof(siginfo_t) + offsetof(ucontext_t, uc_mcontext.regs);

	if (!read_word(registers + 29 * sizeof(uint64_t), &frame->fp) ||
	    !read_word(registers + 30 * sizeof(uint64_t), &frame->lr) ||
	    !read_word(registers + 32 * sizeof(uint64_t), &frame->pc) ||
	    !read_word(registers + 31 * sizeof(uint64_t), &frame->sp))
		return false;
	frame->interrupted = true;
	return true;
}

#endif /* HAB_LIB_UNWIND_ARM64_H */
