/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Thread-local data by its offset from the thread pointer. On x86-64 the segment register does the
 * addition. The sanitizers cannot handle such pointers, so their builds use plain ones.
 */
#ifndef HAB_LIB_TLS_H
#define HAB_LIB_TLS_H

#include <linux/rseq.h>
#include <stddef.h>

#include "lib/thread.h"

#if defined(__x86_64__) && defined(__SEG_FS) && !defined(__SANITIZE_ADDRESS__) && \
	!defined(__SANITIZE_THREAD__) && !defined(HAB_GENERIC_TLS)
#define HAB_TLS		__seg_fs
#define HAB_TLS_AT(off) (off)
#else
#define HAB_TLS
#define HAB_TLS_AT(off) ((char *)__builtin_thread_pointer() + (off))
#endif

/* clang drops the segment of a memory operand in assembly, so its area has none. */
#if defined(__clang__)
#define HAB_TLS_RSEQ
#define HAB_TLS_RSEQ_AT(off) ((char *)__builtin_thread_pointer() + (off))
#else
#define HAB_TLS_RSEQ	     HAB_TLS
#define HAB_TLS_RSEQ_AT(off) HAB_TLS_AT(off)
#endif

typedef struct hab_tlab HAB_TLS hab_tls_tlab;
typedef struct rseq HAB_TLS_RSEQ hab_tls_rseq;

static inline hab_tls_tlab *hab_tls_at(ptrdiff_t offset)
{
	return (hab_tls_tlab *)HAB_TLS_AT(offset);
}

/* hab_thread_get(), without a call for most threads. */
static inline struct hab_thread *hab_thread_calling(struct hab_heap *heap)
{
	struct hab_thread *thread = hab_tls_at(heap->tlab_offset)->thread;

	return thread != &hab_no_thread ? thread : hab_thread_get(heap);
}

static inline hab_tls_rseq *hab_tls_rseq_at(ptrdiff_t offset)
{
	return (hab_tls_rseq *)HAB_TLS_RSEQ_AT(offset);
}

#endif /* HAB_LIB_TLS_H */
