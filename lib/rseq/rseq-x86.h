/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The sections on x86-64, all made by HAB_RSEQ_SECTION(). Pseudo-code:
 *
 *	area->rseq_cs = &descriptor
 *   start:
 *	if (area->cpu_id != cpu) goto restart
 *	[if (area->mm_cid != cid) goto restart]	the sections of cids
 *	[hardware_cpu = TSC_AUX]	the verifying sections
 *	take:				exchange:
 *	old = *word
 *	next = old + operand
 *	if (no carry) goto empty
 *	*word = next			old = xchg(word, operand)	commit
 *   end:
 *
 * The operand is negated, so a sum without a carry is a subtraction that borrows: the check that
 * enough is free, see HAB_WORD(). @operand and @next are one register.
 *
 *	pop:
 *	old = *word
 *	if (!old) goto empty
 *	next = *(uint64_t *)old
 *	cmpxchg(word, old, next)	commit
 *
 * A chunk's link is its first 8 bytes.
 *
 * The cmpxchg sections commit by lock cmpxchg, which may fail: then it changed nothing, and the
 * flags show that after the section's end. The commit is the last instruction of every section: a
 * thread that is interrupted before it has changed nothing, and one that is interrupted after it
 * is done.
 *
 * Tests put their own instructions into HAB_RSEQ_INJECT(1..3), which may clobber only %r11 and the
 * flags. HAB_RSEQ_NO_CPU_CHECK removes the comparison of CPU numbers, to prove that the tests see
 * it.
 */
/* clang-format off */
#ifndef HAB_LIB_RSEQ_X86_H
#define HAB_LIB_RSEQ_X86_H

/* The kernel requires it before each abort handler; ud1 makes it decodable. */
#define HAB_RSEQ_SIGNATURE 0x53053053
#define HAB_RSEQ_SECTIONS 1

#define HAB_RSEQ_STRING_(x) #x
#define HAB_RSEQ_STRING(x) HAB_RSEQ_STRING_(x)

#ifndef HAB_RSEQ_INJECT
#define HAB_RSEQ_INJECT(n) ""
#define HAB_RSEQ_INJECT_CLOBBERS
#else
#define HAB_RSEQ_INJECT_CLOBBERS "r11",
#endif

#ifdef HAB_RSEQ_NO_CPU_CHECK
#define HAB_RSEQ_CHECK_CPU ""
#define HAB_RSEQ_CHECK_CID ""
#else
#define HAB_RSEQ_CHECK_CPU					\
	"cmpl	%[cpu], %[cpu_id]\n\t"				\
	"jne	%l[restart]\n\t"
#define HAB_RSEQ_CHECK_CID					\
	HAB_RSEQ_CHECK_CPU					\
	"cmpl	%[cid], %[mm_cid]\n\t"				\
	"jne	%l[restart]\n\t"
#endif

/*
 * Opens a section. Local labels: 1 start, 2 end, 3 descriptor, 4 abort. Its exits other than the
 * commit are listed for debuggers, which cannot step through a section.
 */
#define HAB_RSEQ_BEGIN(WORD_OF)						\
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
	".quad	1f, %l[restart]\n\t"					\
	".popsection\n\t"						\
	"leaq	3b(%%rip), %%rax\n\t"					\
	"movq	%%rax, %[rseq_cs]\n"					\
	"1:\n\t"							\
	HAB_RSEQ_INJECT(1)						\
	HAB_RSEQ_CHECK_##WORD_OF

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
	".pushsection __rseq_exit_point_array, \"aw\"\n\t"		\
	".quad	1b, %l[empty]\n\t"					\
	".popsection\n\t"						\
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

/* The parts of a section that read the hardware's CPU number. */
#define HAB_RSEQ_PLAIN_READ
#define HAB_RSEQ_PLAIN_OUTPUT
#define HAB_RSEQ_PLAIN_CLOBBER
#define HAB_RSEQ_VERIFY_READ	HAB_RSEQ_READ_HARDWARE
#define HAB_RSEQ_VERIFY_OUTPUT	[hardware] "=&c" (hardware),
#define HAB_RSEQ_VERIFY_CLOBBER	"rdx",

/* What a word belongs to. */
#define HAB_RSEQ_CPU_INPUT	[cpu_id] "m" (area->cpu_id), [cpu] "r" (cpu)
#define HAB_RSEQ_CID_INPUT	HAB_RSEQ_CPU_INPUT, [cid] "r" (cid), [mm_cid] "m" \
	(*(const uint32_t HAB_TLS_RSEQ *)((const char HAB_TLS_RSEQ *)area + HAB_RSEQ_CID_AT))

#define HAB_RSEQ_SECTION(name, BODY, WORD_OF, CHECK)			\
static inline __attribute__((always_inline)) enum hab_rseq_result	\
name(hab_tls_rseq *area, uint32_t cpu, uint32_t cid, uint64_t *word, uint64_t operand, \
     struct hab_rseq_out *out)						\
{									\
	uint64_t old;							\
	uint32_t hardware = cpu;					\
									\
	/* volatile: gcc 12 removes an asm goto whose outputs are not used. */ \
	__asm__ volatile goto (						\
		HAB_RSEQ_BEGIN(WORD_OF)					\
		HAB_RSEQ_##CHECK##_READ					\
		BODY							\
		: HAB_RSEQ_##CHECK##_OUTPUT [old] "=&a" (old), [next] "+&r" (operand) \
		: HAB_RSEQ_##WORD_OF##_INPUT, [rseq_cs] "m" (area->rseq_cs), [word] "m" (*word) \
		: HAB_RSEQ_INJECT_CLOBBERS HAB_RSEQ_##CHECK##_CLOBBER "memory", "cc" \
		: restart, empty, conflict);				\
	(void)cid;							\
	out->old = old;							\
	out->hardware_cpu = hardware;					\
	return HAB_RSEQ_DONE;						\
restart:								\
	return HAB_RSEQ_RESTART;					\
empty:									\
	return HAB_RSEQ_EMPTY;						\
conflict:								\
	return HAB_RSEQ_CONFLICT;					\
}

HAB_RSEQ_SECTION(hab_rseq_take_store, HAB_RSEQ_TAKE_STORE, CPU, PLAIN)
HAB_RSEQ_SECTION(hab_rseq_take_store_verify, HAB_RSEQ_TAKE_STORE, CPU, VERIFY)
HAB_RSEQ_SECTION(hab_rseq_take_store_cid, HAB_RSEQ_TAKE_STORE, CID, PLAIN)
HAB_RSEQ_SECTION(hab_rseq_take_store_cid_verify, HAB_RSEQ_TAKE_STORE, CID, VERIFY)
HAB_RSEQ_SECTION(hab_rseq_take_cmpxchg, HAB_RSEQ_TAKE_CMPXCHG, CPU, PLAIN)
HAB_RSEQ_SECTION(hab_rseq_take_cmpxchg_verify, HAB_RSEQ_TAKE_CMPXCHG, CPU, VERIFY)
HAB_RSEQ_SECTION(hab_rseq_list_pop, HAB_RSEQ_LIST_POP, CPU, PLAIN)
HAB_RSEQ_SECTION(hab_rseq_list_pop_verify, HAB_RSEQ_LIST_POP, CPU, VERIFY)
HAB_RSEQ_SECTION(hab_rseq_list_pop_cid, HAB_RSEQ_LIST_POP, CID, PLAIN)
HAB_RSEQ_SECTION(hab_rseq_list_pop_cid_verify, HAB_RSEQ_LIST_POP, CID, VERIFY)
HAB_RSEQ_SECTION(hab_rseq_exchange_verify, HAB_RSEQ_EXCHANGE, CPU, VERIFY)
HAB_RSEQ_SECTION(hab_rseq_exchange_cid_verify, HAB_RSEQ_EXCHANGE, CID, VERIFY)

#endif /* HAB_LIB_RSEQ_X86_H */
