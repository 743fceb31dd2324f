/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Whether this kernel restarts sections. */
#ifndef HAB_LIB_TRIAL_H
#define HAB_LIB_TRIAL_H

#include <stdbool.h>

/* NONE: it was not tried. */
enum hab_trial { HAB_TRIAL_NONE, HAB_TRIAL_RESTARTED, HAB_TRIAL_WENT_ON };

/**
 * hab_rseq_trial - run one section that a signal interrupts
 * @size: of the registration: kernels treat larger ones differently
 *
 * Sections depend on the kernel alone: a change of it that no test here has seen could make two
 * threads take one chunk. So on a kernel that is newer than those that the library was tested on,
 * a process of its own runs a section with an instruction that no processor has. The kernel answers
 * with SIGILL, which has to end the section. No clock is part of it. That process shares this one's
 * memory, and has a registration and handlers of its own; all signals but that one are blocked in
 * it. The caller waits for it, a tenth of a millisecond mostly, with its signals blocked. The
 * program gets none.
 *
 * Return: what the section did. It is not tried if no process may be made, or if the program has a
 * filter of system calls.
 */
enum hab_trial hab_rseq_trial(unsigned int size);

/* True if the running kernel is newer than those that the library was tested on. */
bool hab_rseq_kernel_is_new(void);

#endif /* HAB_LIB_TRIAL_H */
