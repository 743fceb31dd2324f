/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
#ifndef HAB_LIB_ALLOC_TRIM_THREAD_H
#define HAB_LIB_ALLOC_TRIM_THREAD_H

/* Starts the thread of HAB_HEAP_TRIM_THREAD if it does not run. Without memory there is none. */
void hab_trim_thread_start(void);

#endif /* HAB_LIB_ALLOC_TRIM_THREAD_H */
