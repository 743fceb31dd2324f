/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The sections, made by HAB_RSEQ_SECTION() from the instructions of one architecture. Pseudo-code:
 *
 *	area->rseq_cs = &descriptor
 *   start:
 *	if (area->cpu_id != cpu) goto restart
 *	[if (area->mm_cid != cid) goto restart]	the sections of cids
 *	[hardware_cpu = the hardware's number]	the verifying sections
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
 * The commit is the last instruction of every section: a thread that is interrupted before it has
 * changed nothing, and one that is interrupted after it is done. A commit on a shared word may
 * fail: then it changed nothing, and a comparison after the section's end shows that.
 *
 * Where no instruction reads the hardware's number, verifying sections ask the kernel before and
 * after (cpu_check.h).
 *
 * Tests put their own instructions into HAB_RSEQ_INJECT(1..3). HAB_RSEQ_NO_CPU_CHECK removes the
 * comparison of CPU numbers, to prove that the tests see it.
 *
 * An architecture's header defines
 *
 *	HAB_RSEQ_SIGNATURE		what the kernel requires before each abort handler
 *	HAB_RSEQ_BEGIN(WORD_OF)		opens a section of words of a CPU or a CID, with
 *	HAB_RSEQ_CHECK(WORD_OF)
 *	HAB_RSEQ_CHECK_{CPU,CID}	goes to restart if the thread is elsewhere
 *	HAB_RSEQ_TAKE_STORE, HAB_RSEQ_TAKE_CMPXCHG, HAB_RSEQ_LIST_POP, HAB_RSEQ_EXCHANGE
 *					the rest, with the commit and the section's end
 *	HAB_RSEQ_SHARED()		HAB_RSEQ_SECTION() for commits on shared words
 *	HAB_RSEQ_OLD_IN, HAB_RSEQ_WORD_AT, HAB_RSEQ_CLOBBERS	constraints
 *	HAB_RSEQ_{PLAIN,VERIFY}_{READ,OUTPUT,CLOBBER,BEGIN,END}	the hardware's CPU number
 */
#ifndef HAB_LIB_SECTIONS_H
#define HAB_LIB_SECTIONS_H

#include <linux/rseq.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/rseq/cpu_check.h"
#include "lib/rseq/tls.h"
#include "uapi/hab.h"

enum hab_rseq_result {
	HAB_RSEQ_DONE = 0,
	HAB_RSEQ_EMPTY,
	HAB_RSEQ_RESTART,
	HAB_RSEQ_CONFLICT,
	HAB_RSEQ_NOT_TRIED,
};

/**
 * struct hab_rseq_out - the outcome of a section that committed
 * @old: the word before
 * @hardware_cpu: the CPU number that the hardware gave inside the section; HAB_CPU_UNKNOWN if it
 *	has none and the thread was interrupted; @cpu in sections that do not read it
 */
struct hab_rseq_out {
	uint64_t old;
	uint32_t hardware_cpu;
};

static inline uint32_t hab_rseq_cpu(const hab_tls_rseq *area)
{
	return *(const volatile uint32_t HAB_TLS_RSEQ *)&area->cpu_id_start;
}

/* Behind the fields that older headers of the kernel have, in the same 32 bytes. */
#define HAB_RSEQ_CID_AT 24

static inline uint32_t hab_rseq_cid(const hab_tls_rseq *area)
{
	return *(const volatile uint32_t HAB_TLS_RSEQ *)((const char HAB_TLS_RSEQ *)area +
							 HAB_RSEQ_CID_AT);
}

/*
 * A section as a function, for callers with several: gcc before 12.4 and 13.3 mixes up the outputs
 * of two sections in one function (its bug 113921).
 */
#define HAB_RSEQ_FUNCTION(name, section)                                                         \
	__attribute__((noinline, unused)) static enum hab_rseq_result name(                      \
		hab_tls_rseq *area, uint32_t cpu, uint32_t cid, uint64_t *word, uint64_t operand, \
		struct hab_rseq_out *out)                                                        \
	{                                                                                        \
		return section(area, cpu, cid, word, operand, out);                              \
	}

/* clang-format off */
#if (defined(__x86_64__) || defined(__aarch64__)) && !defined(HAB_NO_RSEQ)

#define HAB_RSEQ_SECTIONS 1

#define HAB_RSEQ_STRING_(x) #x
#define HAB_RSEQ_STRING(x) HAB_RSEQ_STRING_(x)

#ifndef HAB_RSEQ_INJECT
#define HAB_RSEQ_INJECT(n) ""
#define HAB_RSEQ_INJECT_CLOBBERS
#endif

#ifdef HAB_RSEQ_NO_CPU_CHECK
#define HAB_RSEQ_CHECK(WORD_OF) ""
#else
#define HAB_RSEQ_CHECK(WORD_OF) HAB_RSEQ_CHECK_##WORD_OF
#endif

/*
 * The descriptor of a section, and lists for debuggers, which cannot step through one: of the
 * descriptors, and of the exits other than the commit. Local labels: 1 start, 2 end, 3 descriptor,
 * 4 abort.
 */
#define HAB_RSEQ_DESCRIPTOR						\
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
	".popsection\n\t"
#define HAB_RSEQ_MAY_BE_EMPTY						\
	".pushsection __rseq_exit_point_array, \"aw\"\n\t"		\
	".quad	1b, %l[empty]\n\t"					\
	".popsection\n\t"

/* What a word belongs to. */
#define HAB_RSEQ_CPU_INPUT	[cpu_id] "m" (area->cpu_id), [cpu] "r" (cpu)
#define HAB_RSEQ_CID_INPUT	HAB_RSEQ_CPU_INPUT, [cid] "r" (cid), [mm_cid] "m" \
	(*(const uint32_t HAB_TLS_RSEQ *)((const char HAB_TLS_RSEQ *)area + HAB_RSEQ_CID_AT))

#define HAB_RSEQ_SECTION(name, BODY, WORD_OF, CHECK)			\
static inline __attribute__((always_inline)) enum hab_rseq_result	\
name(hab_tls_rseq *area, uint32_t cpu, uint32_t cid, uint64_t *word, uint64_t operand, \
     struct hab_rseq_out *out)						\
{									\
	HAB_RSEQ_##CHECK##_BEGIN;					\
	uint64_t old;							\
									\
	/* volatile: gcc 12 removes an asm goto whose outputs are not used. */ \
	__asm__ volatile goto (						\
		HAB_RSEQ_BEGIN(WORD_OF)					\
		HAB_RSEQ_##CHECK##_READ					\
		BODY							\
		: HAB_RSEQ_##CHECK##_OUTPUT [old] HAB_RSEQ_OLD_IN (old), [next] "+&r" (operand) \
		: HAB_RSEQ_##WORD_OF##_INPUT, [rseq_cs] "m" (area->rseq_cs), \
		  [word] HAB_RSEQ_WORD_AT (*word)			\
		: HAB_RSEQ_INJECT_CLOBBERS HAB_RSEQ_##CHECK##_CLOBBER HAB_RSEQ_CLOBBERS \
		  "memory", "cc"					\
		: restart, empty, conflict);				\
	(void)cid;							\
	out->old = old;							\
	out->hardware_cpu = HAB_RSEQ_##CHECK##_END;			\
	return HAB_RSEQ_DONE;						\
restart:								\
	return HAB_RSEQ_RESTART;					\
empty:									\
	return HAB_RSEQ_EMPTY;						\
conflict:								\
	return HAB_RSEQ_CONFLICT;					\
}

#if defined(__x86_64__)
#include "lib/rseq/x86.h"
#elif defined(__aarch64__)
#include "lib/rseq/arm64.h"
#endif

HAB_RSEQ_SECTION(hab_rseq_take_store, HAB_RSEQ_TAKE_STORE, CPU, PLAIN)
HAB_RSEQ_SECTION(hab_rseq_take_store_verify, HAB_RSEQ_TAKE_STORE, CPU, VERIFY)
HAB_RSEQ_SECTION(hab_rseq_take_store_cid, HAB_RSEQ_TAKE_STORE, CID, PLAIN)
HAB_RSEQ_SECTION(hab_rseq_take_store_cid_verify, HAB_RSEQ_TAKE_STORE, CID, VERIFY)
HAB_RSEQ_SHARED(hab_rseq_take_cmpxchg, HAB_RSEQ_TAKE_CMPXCHG, CPU, PLAIN)
HAB_RSEQ_SHARED(hab_rseq_take_cmpxchg_verify, HAB_RSEQ_TAKE_CMPXCHG, CPU, VERIFY)
HAB_RSEQ_SHARED(hab_rseq_list_pop, HAB_RSEQ_LIST_POP, CPU, PLAIN)
HAB_RSEQ_SHARED(hab_rseq_list_pop_verify, HAB_RSEQ_LIST_POP, CPU, VERIFY)
HAB_RSEQ_SHARED(hab_rseq_list_pop_cid, HAB_RSEQ_LIST_POP, CID, PLAIN)
HAB_RSEQ_SHARED(hab_rseq_list_pop_cid_verify, HAB_RSEQ_LIST_POP, CID, VERIFY)
HAB_RSEQ_SHARED(hab_rseq_exchange, HAB_RSEQ_EXCHANGE, CPU, PLAIN)
HAB_RSEQ_SHARED(hab_rseq_exchange_verify, HAB_RSEQ_EXCHANGE, CPU, VERIFY)
HAB_RSEQ_SHARED(hab_rseq_exchange_cid, HAB_RSEQ_EXCHANGE, CID, PLAIN)
HAB_RSEQ_SHARED(hab_rseq_exchange_cid_verify, HAB_RSEQ_EXCHANGE, CID, VERIFY)

#else
#include "lib/rseq/none.h"
#endif

#endif /* HAB_LIB_SECTIONS_H */
