/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * A TLAB in thread-local storage, by its offset from the thread pointer. On
 * x86-64 the segment register does the addition; the sanitizers do not know such
 * pointers, so their builds go the generic way.
 */
#ifndef HAB_LIB_TLS_H
#define HAB_LIB_TLS_H

#include "thread.h"

#if defined(__x86_64__) && defined(__SEG_FS) && !defined(__SANITIZE_ADDRESS__) && \
	!defined(__SANITIZE_THREAD__) && !defined(HAB_GENERIC_TLS)
typedef struct hab_tlab __seg_fs hab_tls_tlab;

static inline hab_tls_tlab *hab_tls_at(ptrdiff_t offset)
{
	return (hab_tls_tlab *)offset;
}
#else
typedef struct hab_tlab hab_tls_tlab;

static inline hab_tls_tlab *hab_tls_at(ptrdiff_t offset)
{
	return (hab_tls_tlab *)((char *)__builtin_thread_pointer() + offset);
}
#endif

#endif /* HAB_LIB_TLS_H */
