// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* The probes of usdt.h. */
#include "inside/usdt.h"

#if __has_include(<sys/sdt.h>)
#define _SDT_HAS_SEMAPHORES 1
/* Arguments in registers: not every tracer can read all kinds of memory operands. */
#define STAP_SDT_ARG_CONSTRAINT nr
#include <sys/sdt.h>
#else
/* Built without probes: no tracer can raise a semaphore either. */
#define DTRACE_PROBE1(provider, probe, a)	((void)(a))
#define DTRACE_PROBE3(provider, probe, a, b, c) ((void)(a), (void)(b), (void)(c))
#endif

/*
 * A note "hab" beside those of the probes, with nothing in it. By this habd knows a file whose
 * processes tell it their samples otherwise, and does not follow its probes.
 */
__asm__(".pushsection .note.hab, \"\", %note\n"
	".balign 4\n"
	".4byte 4, 0, 1\n"
	".asciz \"hab\"\n"
	".popsection\n");

#define SEMAPHORE __attribute__((section(".probes")))

volatile unsigned short otel_memory_alloc_semaphore SEMAPHORE;
volatile unsigned short otel_memory_free_semaphore SEMAPHORE;

/* These are not inline, so that each probe has one site. */
__attribute__((noinline)) void hab_usdt_alloc(void *address, size_t size, uint64_t weight)
{
	if (otel_memory_alloc_semaphore)
		DTRACE_PROBE3(otel_memory, alloc, address, size, weight);
}

__attribute__((noinline)) void hab_usdt_free(void *address)
{
	if (otel_memory_free_semaphore)
		DTRACE_PROBE1(otel_memory, free, address);
}
