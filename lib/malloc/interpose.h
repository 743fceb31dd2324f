/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Shared by the files with interposed functions.
 */
#ifndef HAB_MALLOC_INTERPOSE_H
#define HAB_MALLOC_INTERPOSE_H

#include <stdbool.h>
#include <stddef.h>

#define HAB_INTERPOSED __attribute__((visibility("default")))

/* Called last by an interposed function, and not inlined, so that this one saves no registers. */
#define HAB_SLOW __attribute__((noinline, cold))

/* Of C23: older C libraries do not declare them. */
void free_sized(void *p, size_t size);
void free_aligned_sized(void *p, size_t alignment, size_t size);

/* The object at @p, which is going to be freed, is live no more. false: it was not. */
bool hab_forget(void *p) __attribute__((visibility("hidden")));

#endif /* HAB_MALLOC_INTERPOSE_H */
