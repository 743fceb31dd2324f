/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Whether this kernel restarts sections. */
#ifndef HAB_LIB_TRIAL_H
#define HAB_LIB_TRIAL_H

/*
 * NONE: it was not tried. KILLED: the process of the trial was killed before it had a result, by
 * the kernel or by a filter of system calls.
 */
enum hab_trial { HAB_TRIAL_NONE, HAB_TRIAL_RESTARTED, HAB_TRIAL_WENT_ON, HAB_TRIAL_KILLED };

/**
 * hab_rseq_trial - run two sections that are interrupted
 * @size: of the threads' registrations, in bytes: kernels treat larger ones differently
 * @why: set if the result is HAB_TRIAL_NONE, to the reason, and if it is HAB_TRIAL_WENT_ON, to
 *	what interrupted the section; in a few words
 *
 * Sections depend on the kernel alone: on one that does not restart them two threads would take
 * one chunk. So a process of its own runs two sections. One loops until another process has
 * membarrier() end it. The other one has an instruction that no processor has: the kernel answers
 * with SIGILL, which has to end it. Both are needed, because kernels restart sections after an
 * interrupt and after a signal in different ways. No clock is part of it. Both processes share this
 * one's memory; the first has a registration and a handler of its own, and all signals but that one
 * are blocked in it. The caller waits for it with its signals blocked. The program gets none. One
 * thread at a time may call this.
 *
 * Return: what the section did. It is not tried if no process may be made, or if the program has a
 * filter of system calls, which might end the program.
 */
enum hab_trial hab_rseq_trial(unsigned int size, const char **why);

/* BROKEN: known not to restart sections. UNREADABLE: its release is no version. */
enum hab_kernel { HAB_KERNEL_NOT_BROKEN, HAB_KERNEL_BROKEN, HAB_KERNEL_UNREADABLE };

/**
 * hab_rseq_kernel - what is known of a kernel, for where the trial has no result
 * @release: as uname() has it
 *
 * Return: whether it is in the table of kernels that are known to be broken on this processor. Any
 * thread may call it.
 */
enum hab_kernel hab_rseq_kernel(const char *release);
extern const char *hab_rseq_machine;

#endif /* HAB_LIB_TRIAL_H */
