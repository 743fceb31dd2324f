// SPDX-License-Identifier: GPL-2.0-only
/*
 * Lets libhab's own code run where the kernel offers no restartable sequences: under
 * valgrind, which counts the instructions. Linked with --wrap=hab_rseq_attach; one
 * thread only, on CPU 0, and nothing interrupts its sections there.
 */
#include "lib/rseq/rseq.h"

enum hab_rseq_owner __wrap_hab_rseq_attach(void);

static __thread struct rseq area;

enum hab_rseq_owner __wrap_hab_rseq_attach(void)
{
	hab_rseq_offset = (char *)&area - (char *)__builtin_thread_pointer();
	return HAB_RSEQ_LIBC;
}
