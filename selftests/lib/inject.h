/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Delays for the stress test, included before everything else: loops inside the library's rseq
 * sections, where a preemption or a signal must restart them, and a C hook before them, where the
 * thread may be moved.
 */
/* clang-format off */
#ifndef HAB_SELFTESTS_INJECT_H
#define HAB_SELFTESTS_INJECT_H

/* Rounds of each loop; 0: none. */
extern unsigned int hab_inject_1, hab_inject_2, hab_inject_3;

void hab_inject_before(void);

#define HAB_INJECT_BEFORE_SECTION() hab_inject_before()

#ifdef __aarch64__
#define HAB_RSEQ_INJECT_CLOBBERS
#define HAB_RSEQ_INJECT(n)						\
	"adrp	x17, hab_inject_" #n "\n\t"				\
	"ldr	w17, [x17, :lo12:hab_inject_" #n "]\n\t"		\
	"cbz	w17, 8f\n"						\
	"9:\n\t"							\
	"sub	w17, w17, #1\n\t"					\
	"cbnz	w17, 9b\n"						\
	"8:\n\t"
#else
#define HAB_RSEQ_INJECT_CLOBBERS "r11",
#define HAB_RSEQ_INJECT(n)						\
	"movl	hab_inject_" #n "(%%rip), %%r11d\n\t"			\
	"testl	%%r11d, %%r11d\n\t"					\
	"jz	8f\n"							\
	"9:\n\t"							\
	"decl	%%r11d\n\t"						\
	"jnz	9b\n"							\
	"8:\n\t"
#endif

#endif /* HAB_SELFTESTS_INJECT_H */
