/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The instructions of the sections (sections.h) on arm64.
 *
 * Commits on shared words: CASAL and SWPAL where the CPU has them (LSE, ARMv8.1), which is decided
 * once at the start; else STLXR, which belongs to an LDAXR in the section and fails if anything
 * wrote the word since, or for no reason. Both pairs are acquire and release.
 *
 * A take by a plain store needs no order: another CPU writes the word only after membarrier() or an
 * interrupt has ended the sections of its CPU. Documentation/memory-order.rst has each argument.
 *
 * No register of user space has the CPU number, so verifying sections use cpu_check.h.
 *
 * Tests' instructions in HAB_RSEQ_INJECT(1..3) may clobber only x16, x17 and the flags.
 */
/* clang-format off */
#ifndef HAB_LIB_RSEQ_ARM64_H
#define HAB_LIB_RSEQ_ARM64_H

#include "lib/rseq/cpu_check.h"

/* The kernel requires it before each abort handler: a brk, as glibc has it. */
#define HAB_RSEQ_SIGNATURE 0xd428bc00

#define HAB_RSEQ_CHECK_CPU						\
	"ldr	w16, %[cpu_id]\n\t"					\
	"cmp	w16, %w[cpu]\n\t"					\
	"b.ne	%l[restart]\n\t"
#define HAB_RSEQ_CHECK_CID						\
	HAB_RSEQ_CHECK_CPU						\
	"ldr	w16, %[mm_cid]\n\t"					\
	"cmp	w16, %w[cid]\n\t"					\
	"b.ne	%l[restart]\n\t"

/* Opens a section. */
#define HAB_RSEQ_BEGIN(WORD_OF)						\
	HAB_RSEQ_DESCRIPTOR						\
	"adrp	x16, 3b\n\t"						\
	"add	x16, x16, :lo12:3b\n\t"					\
	"str	x16, %[rseq_cs]\n"					\
	"1:\n\t"							\
	HAB_RSEQ_INJECT(1)						\
	HAB_RSEQ_CHECK(WORD_OF)

/* Closes it, right behind the commit. */
#define HAB_RSEQ_END							\
	"2:\n\t"							\
	".pushsection __rseq_failure, \"ax\"\n\t"			\
	".inst	" HAB_RSEQ_STRING(HAB_RSEQ_SIGNATURE) "\n"		\
	"4:\n\t"							\
	"b	%l[restart]\n\t"					\
	".popsection\n\t"

#define HAB_RSEQ_LSE ".arch_extension lse\n\t"

/* Reads the word; the section may end empty. */
#define HAB_RSEQ_READ_WORD(LOAD)					\
	HAB_RSEQ_MAY_BE_EMPTY						\
	LOAD "	%[old], %[word]\n\t"					\
	HAB_RSEQ_INJECT(2)

#define HAB_RSEQ_SUBTRACT						\
	"adds	%[next], %[old], %[next]\n\t"				\
	"b.cc	%l[empty]\n\t"						\
	HAB_RSEQ_INJECT(3)

#define HAB_RSEQ_FOLLOW_LINK						\
	"cbz	%[old], %l[empty]\n\t"					\
	"ldr	%[next], [%[old]]\n\t"					\
	HAB_RSEQ_INJECT(3)

#define HAB_RSEQ_COMMIT_LSE						\
	"mov	x16, %[old]\n\t"					\
	HAB_RSEQ_LSE							\
	"casal	x16, %[next], %[word]\n"	/* commit */		\
	HAB_RSEQ_END							\
	"cmp	x16, %[old]\n\t"					\
	"b.ne	%l[conflict]\n\t"

#define HAB_RSEQ_COMMIT_LLSC						\
	"stlxr	w16, %[next], %[word]\n"	/* commit */		\
	HAB_RSEQ_END							\
	"cbnz	w16, %l[conflict]\n\t"

#define HAB_RSEQ_TAKE_STORE						\
	HAB_RSEQ_READ_WORD("ldr")					\
	HAB_RSEQ_SUBTRACT						\
	"str	%[next], %[word]\n"		/* commit */		\
	HAB_RSEQ_END

#define HAB_RSEQ_TAKE_CMPXCHG_LSE	HAB_RSEQ_READ_WORD("ldr")	\
	HAB_RSEQ_SUBTRACT HAB_RSEQ_COMMIT_LSE
#define HAB_RSEQ_TAKE_CMPXCHG_LLSC	HAB_RSEQ_READ_WORD("ldaxr")	\
	HAB_RSEQ_SUBTRACT HAB_RSEQ_COMMIT_LLSC
#define HAB_RSEQ_LIST_POP_LSE		HAB_RSEQ_READ_WORD("ldr")	\
	HAB_RSEQ_FOLLOW_LINK HAB_RSEQ_COMMIT_LSE
#define HAB_RSEQ_LIST_POP_LLSC		HAB_RSEQ_READ_WORD("ldaxr")	\
	HAB_RSEQ_FOLLOW_LINK HAB_RSEQ_COMMIT_LLSC

#define HAB_RSEQ_EXCHANGE_LSE						\
	HAB_RSEQ_INJECT(3)						\
	HAB_RSEQ_LSE							\
	"swpal	%[next], %[old], %[word]\n"	/* commit */		\
	HAB_RSEQ_END
#define HAB_RSEQ_EXCHANGE_LLSC						\
	"ldaxr	%[old], %[word]\n\t"					\
	HAB_RSEQ_INJECT(3)						\
	HAB_RSEQ_COMMIT_LLSC

/* Registers and memory operands of the sections. */
#define HAB_RSEQ_OLD_IN		"=&r"
#define HAB_RSEQ_WORD_AT	"Q"
#define HAB_RSEQ_CLOBBERS	"x16", "x17", /* a branch to far code uses both */

#define HAB_RSEQ_PLAIN_READ
#define HAB_RSEQ_PLAIN_OUTPUT
#define HAB_RSEQ_PLAIN_CLOBBER
#define HAB_RSEQ_PLAIN_BEGIN	(void)0
#define HAB_RSEQ_PLAIN_END	cpu
#define HAB_RSEQ_VERIFY_READ
#define HAB_RSEQ_VERIFY_OUTPUT
#define HAB_RSEQ_VERIFY_CLOBBER
#define HAB_RSEQ_VERIFY_BEGIN	struct hab_cpu_check check = hab_cpu_check_begin()
#define HAB_RSEQ_VERIFY_END	hab_cpu_check_end(&check)

/* Whether the CPUs have LSE. */
extern _Bool hab_rseq_lse;

/* The second section is a function: see HAB_RSEQ_FUNCTION(). */
#define HAB_RSEQ_SHARED(name, BODY, WORD_OF, CHECK)			\
HAB_RSEQ_SECTION(name##_lse, BODY##_LSE, WORD_OF, CHECK)		\
HAB_RSEQ_SECTION(name##_llsc, BODY##_LLSC, WORD_OF, CHECK)		\
HAB_RSEQ_FUNCTION(name##_without_lse, name##_llsc)			\
static inline __attribute__((always_inline)) enum hab_rseq_result	\
name(hab_tls_rseq *area, uint32_t cpu, uint32_t cid, uint64_t *word, uint64_t operand, \
     struct hab_rseq_out *out)						\
{									\
	if (__builtin_expect(!hab_rseq_lse, 0))				\
		return name##_without_lse(area, cpu, cid, word, operand, out); \
	return name##_lse(area, cpu, cid, word, operand, out);		\
}

#endif /* HAB_LIB_RSEQ_ARM64_H */
