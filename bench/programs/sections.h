/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The words and restartable sequences of the bare mechanisms, without the library around them: the
 * cost of the operating system's support alone.
 *
 * A word is HAB_WORD(), so taking n granules is one subtraction of n * HAB_WORD_STEP, which borrows
 * if fewer are free.
 *
 *	area->rseq_cs = &descriptor
 *   start:
 *	if (area->cpu_id != cpu) goto restart
 *	next = *word - step
 *	if (borrow) goto empty
 *	*word = next				commit: store, or lock cmpxchg
 *   end:
 */
#ifndef HAB_BENCH_SECTIONS_H
#define HAB_BENCH_SECTIONS_H

#include <linux/rseq.h>
#include <stdint.h>

#include "uapi/hab.h"

#define BENCH_WORD_FULL HAB_WORD(0, HAB_WORD_FREE_MAX)

enum bench_section {
	BENCH_DONE,
	BENCH_RESTART, /* another CPU, interrupted, or a cmpxchg that failed */
	BENCH_EMPTY,
};

/* clang-format off */

/* Local labels: 1 start, 2 end, 3 descriptor, 4 abort. The kernel checks the signature. */
#define BENCH_SECTION_BEGIN						\
	".pushsection __rseq_cs, \"aw\"\n\t"				\
	".balign 32\n"							\
	"3:\n\t"							\
	".long	0, 0\n\t"						\
	".quad	1f, 2f - 1f, 4f\n\t"					\
	".popsection\n\t"						\
	"leaq	3b(%%rip), %[next]\n\t"					\
	"movq	%[next], %[rseq_cs]\n"					\
	"1:\n\t"							\
	"cmpl	%[cpu], %[cpu_id]\n\t"					\
	"jne	%l[restart]\n\t"					\
	"movq	%[word], %%rax\n\t"					\
	"movq	%%rax, %[next]\n\t"					\
	"subq	%[step], %[next]\n\t"					\
	"jb	%l[empty]\n\t"

#define BENCH_SECTION_END						\
	"2:\n\t"							\
	".pushsection __rseq_failure, \"ax\"\n\t"			\
	".byte	0x0f, 0xb9, 0x3d\n\t"					\
	".long	0x53053053\n"						\
	"4:\n\t"							\
	"jmp	%l[restart]\n\t"					\
	".popsection\n\t"

#define BENCH_STORE							\
	"movq	%[next], %[word]\n"		/* commit */		\
	BENCH_SECTION_END

#define BENCH_CMPXCHG							\
	"lock; cmpxchgq %[next], %[word]\n"	/* commit */		\
	BENCH_SECTION_END						\
	"jne	%l[restart]\n\t"

#define BENCH_SECTION(name, COMMIT)					\
static inline __attribute__((always_inline)) enum bench_section		\
name(struct rseq *area, uint32_t cpu, uint64_t *word, uint64_t step, uint64_t *old) \
{									\
	uint64_t value, next;						\
									\
	__asm__ goto (							\
		BENCH_SECTION_BEGIN					\
		COMMIT							\
		: "=&a" (value), [next] "=&r" (next), [word] "+m" (*word), \
		  [rseq_cs] "=m" (area->rseq_cs)			\
		: [cpu_id] "m" (area->cpu_id), [cpu] "r" (cpu), [step] "r" (step) \
		: "memory", "cc"					\
		: restart, empty);					\
	*old = value;							\
	return BENCH_DONE;						\
restart:								\
	return BENCH_RESTART;						\
empty:									\
	return BENCH_EMPTY;						\
}

BENCH_SECTION(bench_section_store, BENCH_STORE)
BENCH_SECTION(bench_section_cmpxchg, BENCH_CMPXCHG)

#endif /* HAB_BENCH_SECTIONS_H */
