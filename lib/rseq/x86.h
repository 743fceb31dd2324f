/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The instructions of the sections (sections.h) on x86-64.
 *
 * A sum without a carry ends a take: the operand is negated. The cmpxchg sections commit by lock
 * cmpxchg, which sets the flags that show whether it failed. The verifying sections read TSC_AUX.
 *
 * Tests' instructions in HAB_RSEQ_INJECT(1..3) may clobber only %r11 and the flags.
 */
/* clang-format off */
#ifndef HAB_LIB_RSEQ_X86_H
#define HAB_LIB_RSEQ_X86_H

/* The kernel requires it before each abort handler; ud1 makes it decodable. */
#define HAB_RSEQ_SIGNATURE 0x53053053

#define HAB_RSEQ_CHECK_CPU					\
	"cmpl	%[cpu], %[cpu_id]\n\t"				\
	"jne	%l[restart]\n\t"
#define HAB_RSEQ_CHECK_CID					\
	HAB_RSEQ_CHECK_CPU					\
	"cmpl	%[cid], %[mm_cid]\n\t"				\
	"jne	%l[restart]\n\t"

/* Opens a section. */
#define HAB_RSEQ_BEGIN(WORD_OF)						\
	HAB_RSEQ_DESCRIPTOR						\
	"leaq	3b(%%rip), %%rax\n\t"					\
	"movq	%%rax, %[rseq_cs]\n"					\
	"1:\n\t"							\
	HAB_RSEQ_INJECT(1)						\
	HAB_RSEQ_CHECK(WORD_OF)

/* Closes it, right behind the commit. */
#define HAB_RSEQ_END							\
	"2:\n\t"							\
	".pushsection __rseq_failure, \"ax\"\n\t"			\
	".byte	0x0f, 0xb9, 0x3d\n\t"					\
	".long	" HAB_RSEQ_STRING(HAB_RSEQ_SIGNATURE) "\n"		\
	"4:\n\t"							\
	"jmp	%l[restart]\n\t"					\
	".popsection\n\t"

/* TSC_AUX: the kernel keeps the CPU number in the lower 12 bits, its node above. */
#define HAB_RSEQ_READ_HARDWARE						\
	"rdtscp\n\t"							\
	"andl	$0xfff, %%ecx\n\t"

/* Reads the word; the section may end empty. */
#define HAB_RSEQ_READ_WORD						\
	HAB_RSEQ_MAY_BE_EMPTY						\
	"movq	%[word], %%rax\n\t"					\
	HAB_RSEQ_INJECT(2)

#define HAB_RSEQ_SUBTRACT						\
	HAB_RSEQ_READ_WORD						\
	"addq	%%rax, %[next]\n\t"					\
	"jnc	%l[empty]\n\t"						\
	HAB_RSEQ_INJECT(3)

#define HAB_RSEQ_TAKE_STORE						\
	HAB_RSEQ_SUBTRACT						\
	"movq	%[next], %[word]\n"		/* commit */		\
	HAB_RSEQ_END

#define HAB_RSEQ_TAKE_CMPXCHG						\
	HAB_RSEQ_SUBTRACT						\
	"lock; cmpxchgq %[next], %[word]\n"	/* commit */		\
	HAB_RSEQ_END							\
	"jne	%l[conflict]\n\t"

#define HAB_RSEQ_LIST_POP						\
	HAB_RSEQ_READ_WORD						\
	"testq	%%rax, %%rax\n\t"					\
	"jz	%l[empty]\n\t"						\
	"movq	(%%rax), %[next]\n\t"					\
	HAB_RSEQ_INJECT(3)						\
	"lock; cmpxchgq %[next], %[word]\n"	/* commit */		\
	HAB_RSEQ_END							\
	"jne	%l[conflict]\n\t"

#define HAB_RSEQ_EXCHANGE						\
	HAB_RSEQ_INJECT(3)						\
	"movq	%[next], %%rax\n\t"					\
	"xchgq	%%rax, %[word]\n"		/* commit */		\
	HAB_RSEQ_END

/* Registers and memory operands of the sections. */
#define HAB_RSEQ_OLD_IN		"=&a"
#define HAB_RSEQ_WORD_AT	"m"
#define HAB_RSEQ_CLOBBERS

/* The parts of a section that read the hardware's CPU number. */
#define HAB_RSEQ_PLAIN_READ
#define HAB_RSEQ_PLAIN_OUTPUT
#define HAB_RSEQ_PLAIN_CLOBBER
#define HAB_RSEQ_PLAIN_BEGIN	(void)0
#define HAB_RSEQ_PLAIN_END	cpu
#define HAB_RSEQ_VERIFY_READ	HAB_RSEQ_READ_HARDWARE
#define HAB_RSEQ_VERIFY_OUTPUT	[hardware] "=&c" (hardware),
#define HAB_RSEQ_VERIFY_CLOBBER	"rdx",
#define HAB_RSEQ_VERIFY_BEGIN	uint32_t hardware
#define HAB_RSEQ_VERIFY_END	hardware

/* One commit serves words of one CPU and shared ones. */
#define HAB_RSEQ_SHARED		HAB_RSEQ_SECTION

#endif /* HAB_LIB_RSEQ_X86_H */
