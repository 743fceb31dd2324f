/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What unwind.c knows of x86-64; it is a part of that file. */
#ifndef HAB_LIB_UNWIND_X86_H
#define HAB_LIB_UNWIND_X86_H

/* Return addresses are as they are. */
static uintptr_t strip(uintptr_t pc)
{
	return pc;
}

#define FIRST_FRAME_IS_CALLERS true
/* The frame's end is 16 bytes above its frame pointer. */
#define FP_IS_AT_SAVED_FP false

/* The caller of the function that has this inline: it has a frame pointer. */
static inline __attribute__((always_inline)) struct frame first_frame(void)
{
	const uintptr_t *here = __builtin_frame_address(0);

	return (struct frame){ .fp = here[0], .pc = here[1], .sp = (uintptr_t)(here + 2) };
}

/*
 * A function without a table may end where the one that it called returns to, as trampolines do.
 * Then its last instructions say where its frame ends: "add n,%rsp" and "pop" up to "ret". It runs,
 * so its code stays while it is read; @pc is not guessed.
 */
static bool find_end(uintptr_t pc, struct hab_unwind_row *row)
{
	/* The instructions are of at most four bytes: zeros follow. */
	uint64_t words[4] = { 0 };
	const uint8_t *at = (const uint8_t *)words + pc % sizeof(*words);
	const uint8_t *last = (const uint8_t *)(words + read_code(pc, words, 3));
	int32_t end = 0, rbp_at = -1;

	while (at < last && *at != 0xc3) {
		/* pop %rsp */
		if (at[0] == 0x5c)
			return false;
		if (at[0] == 0x48 && at[1] == 0x83 && at[2] == 0xc4 && at[3] < 0x80) {
			end += at[3];
			at += 4;
		} else if ((at[0] & 0xf8) == 0x58 || (at[0] == 0x41 && (at[1] & 0xf8) == 0x58)) {
			if (at[0] == 0x5d)
				rbp_at = end;
			end += (int32_t)sizeof(uintptr_t);
			at += at[0] == 0x41 ? 2 : 1;
		} else {
			return false;
		}
	}
	if (at >= last)
		return false;
	end += (int32_t)sizeof(uintptr_t);
	*row = (struct hab_unwind_row){ .base = HAB_UNWIND_SP,
					.ra = HAB_UNWIND_SAVED,
					.ra_offset = -(int32_t)sizeof(uintptr_t),
					.end = end };
	if (rbp_at >= 0) {
		row->fp = HAB_UNWIND_SAVED;
		row->fp_offset = rbp_at - end;
	}
	return true;
}

/* The kernel has put the registers on the stack. */
static bool leave_signal(struct frame *frame)
{
	uintptr_t registers = frame->sp + offsetof(ucontext_t, uc_mcontext.gregs);

	if (!read_word(registers + REG_RBP * sizeof(greg_t), &frame->fp) ||
	    !read_word(registers + REG_RIP * sizeof(greg_t), &frame->pc) ||
	    !read_word(registers + REG_RSP * sizeof(greg_t), &frame->sp))
		return false;
	frame->interrupted = true;
	return true;
}

#endif /* HAB_LIB_UNWIND_X86_H */
