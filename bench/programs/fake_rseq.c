// SPDX-License-Identifier: GPL-2.0-only
/*
 * Lets libhab's own code run where the kernel has no restartable sequences: under valgrind, which
 * counts the instructions. Linked with --wrap=hab_rseq_attach. For one thread, on CPU 0, without
 * interruptions of its sections.
 */
#include "lib/rseq/rseq.h"

enum hab_rseq_owner __wrap_hab_rseq_attach(void);

static __thread struct rseq area;

enum hab_rseq_owner __wrap_hab_rseq_attach(void)
{
	hab_rseq_offset = (char *)&area - (char *)__builtin_thread_pointer();
	return HAB_RSEQ_LIBC;
}
