/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The sections on x86-64. Pseudo-code of a take, store variant:
 *
 *	area->rseq_cs = &descriptor
 *   start:
 *	if (area->cpu_id != cpu) goto restart
 *	[hardware_cpu = TSC_AUX]		the verifying variant
 *	old = *word
 *	taken = min(want, rest(old))
 *	if (rest(old) < least) goto empty
 *	*word = old - taken * HAB_WORD_STEP	commit
 *   end:
 *
 * The cmpxchg variant commits with lock cmpxchg instead, which may fail: then it
 * was reached, changed nothing, and the flags tell after the section's end. It is
 * the last instruction of the section in both, so whoever is interrupted before
 * it changes nothing and whoever is interrupted after it is done.
 *
 * The sections of the fast path take exactly what is asked for, or nothing: one
 * subtraction, whose borrow is the check (see HAB_WORD()).
 *
 * Tests put their own instructions into HAB_RSEQ_INJECT(1..3); they may clobber
 * only %r11 and the flags. HAB_RSEQ_NO_CPU_CHECK leaves out the comparison, to
 * show that the tests notice.
 */
/* clang-format off */
#ifndef HAB_LIB_RSEQ_X86_H
#define HAB_LIB_RSEQ_X86_H

/* The kernel wants it before each abort handler; ud1 makes it decodable. */
#define HAB_RSEQ_SIGNATURE 0x53053053
#define HAB_RSEQ_SECTIONS 1

#ifndef HAB_RSEQ_INJECT
#define HAB_RSEQ_INJECT(n) ""
#define HAB_RSEQ_INJECT_CLOBBERS
#else
#define HAB_RSEQ_INJECT_CLOBBERS "r11",
#endif

#ifdef HAB_RSEQ_NO_CPU_CHECK
#define HAB_RSEQ_CHECK_CPU ""
#else
#define HAB_RSEQ_CHECK_CPU					\
	"cmpl	%[cpu], %[cpu_id]\n\t"				\
	"jne	5f\n\t"
#endif

/* Opens a section: descriptor, exit points, begin. Local labels: 1 start, 2 end,
 * 3 descriptor, 4 abort, 5 restart, 6 empty, 7 out. @scratch is a register.
 */
#define HAB_RSEQ_BEGIN(scratch)						\
	".pushsection __rseq_cs, \"aw\"\n\t"				\
	".balign 32\n"							\
	"3:\n\t"							\
	".long	0, 0\n\t"						\
	".quad	1f, 2f - 1f, 4f\n\t"					\
	".popsection\n\t"						\
	".pushsection __rseq_cs_ptr_array, \"aw\"\n\t"			\
	".quad	3b\n\t"							\
	".popsection\n\t"						\
	".pushsection __rseq_exit_point_array, \"aw\"\n\t"		\
	".quad	1f, 5f\n\t"						\
	".popsection\n\t"						\
	"leaq	3b(%%rip), " scratch "\n\t"				\
	"movq	" scratch ", %[rseq_cs]\n"				\
	"1:\n\t"							\
	HAB_RSEQ_INJECT(1)						\
	HAB_RSEQ_CHECK_CPU

/* Closes it, right behind the commit. */
#define HAB_RSEQ_END							\
	"2:\n\t"

#define HAB_RSEQ_ABORT							\
	".pushsection __rseq_failure, \"ax\"\n\t"			\
	".byte	0x0f, 0xb9, 0x3d\n\t"					\
	".long	0x53053053\n"						\
	"4:\n\t"							\
	"jmp	5f\n\t"							\
	".popsection\n\t"

/* TSC_AUX: the kernel keeps the CPU number in the lower 12 bits, its node above. */
#define HAB_RSEQ_READ_HARDWARE						\
	"rdtscp\n\t"							\
	"andl	$0xfff, %%ecx\n\t"					\
	"movl	%%ecx, %[hardware]\n\t"

/* old = *word; taken = min(want, rest); next = old - taken * HAB_WORD_STEP */
#define HAB_RSEQ_COMPUTE						\
	"movq	%[word], %%rax\n\t"					\
	HAB_RSEQ_INJECT(2)						\
	"movq	%%rax, %[taken]\n\t"					\
	"shrq	$38, %[taken]\n\t"					\
	"cmpq	%[least], %[taken]\n\t"					\
	"jb	6f\n\t"							\
	"cmpq	%[want], %[taken]\n\t"					\
	"cmova	%[want], %[taken]\n\t"					\
	"movq	%[taken], %[next]\n\t"					\
	"shlq	$38, %[next]\n\t"					\
	"subq	%[taken], %[next]\n\t"					\
	"negq	%[next]\n\t"						\
	"addq	%%rax, %[next]\n\t"					\
	HAB_RSEQ_INJECT(3)

#define HAB_RSEQ_COMMIT_STORE						\
	"movq	%[next], %[word]\n"	/* commit */

#define HAB_RSEQ_COMMIT_CMPXCHG						\
	"lock; cmpxchgq %[next], %[word]\n"	/* commit */

#define HAB_RSEQ_STORE_RESULT						\
	"xorl	%[result], %[result]\n\t"

#define HAB_RSEQ_CMPXCHG_RESULT						\
	"movl	$3, %[result]\n\t"	/* HAB_RSEQ_CONFLICT */		\
	"jne	7f\n\t"							\
	"xorl	%[result], %[result]\n\t"

/* rdtscp writes three registers; the plain sections leave them to their callers. */
#define HAB_RSEQ_PLAIN		"", "+m", "r11"
#define HAB_RSEQ_VERIFY		HAB_RSEQ_READ_HARDWARE, "+r", "rcx", "rdx", "r11"

#define HAB_RSEQ_TAKE(name, COMMIT, RESULT, ...)			\
	HAB_RSEQ_TAKE_(name, COMMIT, RESULT, __VA_ARGS__)
#define HAB_RSEQ_TAKE_(name, COMMIT, RESULT, HARDWARE, HOLD, ...)	\
static inline __attribute__((always_inline)) enum hab_rseq_result	\
name(struct rseq *area, uint32_t cpu, uint64_t *word, struct hab_rseq_take *take) \
{									\
	uint64_t old, taken, next;					\
	uint32_t hardware = cpu;					\
	int result;							\
									\
	__asm__ volatile (						\
		HAB_RSEQ_BEGIN("%%r11")					\
		HARDWARE						\
		HAB_RSEQ_COMPUTE					\
		COMMIT							\
		HAB_RSEQ_END						\
		RESULT							\
		"jmp	7f\n"						\
		HAB_RSEQ_ABORT						\
		"5:\n\t"						\
		"movl	$2, %[result]\n\t"	/* HAB_RSEQ_RESTART */	\
		"jmp	7f\n"						\
		"6:\n\t"						\
		"movl	$1, %[result]\n"	/* HAB_RSEQ_EMPTY */	\
		"7:\n"							\
		: "=&a" (old), [taken] "=&r" (taken), [next] "=&r" (next), \
		  [result] "=&r" (result), [hardware] HOLD (hardware),	\
		  [word] "+m" (*word), [rseq_cs] "=m" (area->rseq_cs)	\
		: [cpu_id] "m" (area->cpu_id), [cpu] "r" (cpu),		\
		  [least] "r" (take->least), [want] "r" (take->want)	\
		: __VA_ARGS__, "memory", "cc");				\
	take->old = old;						\
	take->taken = taken;						\
	take->hardware_cpu = hardware;					\
	return (enum hab_rseq_result)result;				\
}

HAB_RSEQ_TAKE(hab_rseq_take_store, HAB_RSEQ_COMMIT_STORE, HAB_RSEQ_STORE_RESULT, HAB_RSEQ_PLAIN)
HAB_RSEQ_TAKE(hab_rseq_take_cmpxchg, HAB_RSEQ_COMMIT_CMPXCHG, HAB_RSEQ_CMPXCHG_RESULT,
	      HAB_RSEQ_PLAIN)
HAB_RSEQ_TAKE(hab_rseq_take_store_verify, HAB_RSEQ_COMMIT_STORE, HAB_RSEQ_STORE_RESULT,
	      HAB_RSEQ_VERIFY)
HAB_RSEQ_TAKE(hab_rseq_take_cmpxchg_verify, HAB_RSEQ_COMMIT_CMPXCHG, HAB_RSEQ_CMPXCHG_RESULT,
	      HAB_RSEQ_VERIFY)

#define HAB_RSEQ_EXACT_ABORT						\
	".pushsection __rseq_failure, \"ax\"\n\t"			\
	".byte	0x0f, 0xb9, 0x3d\n\t"					\
	".long	0x53053053\n"						\
	"4:\n"								\
	"5:\n\t"							\
	"jmp	%l[restart]\n\t"					\
	".popsection\n\t"

#define HAB_RSEQ_TAKE_EXACT(name, COMMIT)				\
static inline __attribute__((always_inline)) enum hab_rseq_result	\
name(hab_tls_rseq *area, uint32_t cpu, uint64_t *word, uint64_t step, uint64_t *old_word) \
{									\
	uint64_t old, next;						\
									\
	__asm__ goto (							\
		HAB_RSEQ_BEGIN("%[next]")				\
		"movq	%[word], %%rax\n\t"				\
		HAB_RSEQ_INJECT(2)					\
		"movq	%%rax, %[next]\n\t"				\
		"subq	%[step], %[next]\n\t"				\
		"jb	%l[empty]\n\t"					\
		HAB_RSEQ_INJECT(3)					\
		COMMIT							\
		HAB_RSEQ_EXACT_ABORT					\
		: "=&a" (old), [next] "=&r" (next)			\
		: [cpu_id] "m" (area->cpu_id), [rseq_cs] "m" (area->rseq_cs), \
		  [cpu] "r" (cpu), [step] "r" (step), [word] "m" (*word) \
		: HAB_RSEQ_INJECT_CLOBBERS "memory", "cc"		\
		: restart, empty, conflict);				\
	*old_word = old;						\
	return HAB_RSEQ_DONE;						\
restart:								\
	return HAB_RSEQ_RESTART;					\
empty:									\
	return HAB_RSEQ_EMPTY;						\
conflict:								\
	return HAB_RSEQ_CONFLICT;					\
}

HAB_RSEQ_TAKE_EXACT(hab_rseq_take_exact_store, HAB_RSEQ_COMMIT_STORE HAB_RSEQ_END)
HAB_RSEQ_TAKE_EXACT(hab_rseq_take_exact_cmpxchg,
		    HAB_RSEQ_COMMIT_CMPXCHG HAB_RSEQ_END "jne	%l[conflict]\n\t")

/**
 * hab_rseq_exchange - put a new word in place, on that CPU or not at all
 *
 * For the process backend's refill. Commits with xchg, so the old word is known
 * exactly also where other CPUs move it. DONE or RESTART.
 */
static inline enum hab_rseq_result hab_rseq_exchange(struct rseq *area, uint32_t cpu,
						     uint64_t *word, uint64_t value,
						     uint64_t *old, uint32_t *hardware_cpu)
{
	uint32_t hardware;
	int result;

	__asm__ volatile (
		HAB_RSEQ_BEGIN("%%r11")
		HAB_RSEQ_READ_HARDWARE
		HAB_RSEQ_INJECT(3)
		"xchgq	%[value], %[word]\n"	/* commit */
		HAB_RSEQ_END
		"xorl	%[result], %[result]\n\t"
		"jmp	7f\n"
		HAB_RSEQ_ABORT
		"5:\n\t"
		"movl	$2, %[result]\n"
		"7:\n"
		: [value] "+&r" (value), [result] "=&r" (result), [hardware] "=&r" (hardware),
		  [word] "+m" (*word), [rseq_cs] "=m" (area->rseq_cs)
		: [cpu_id] "m" (area->cpu_id), [cpu] "r" (cpu)
		: "rax", "rcx", "rdx", "r11", "memory", "cc");
	*old = value;
	*hardware_cpu = hardware;
	return (enum hab_rseq_result)result;
}

#endif /* HAB_LIB_RSEQ_X86_H */
