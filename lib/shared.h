/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
#ifndef HAB_LIB_SHARED_H
#define HAB_LIB_SHARED_H

#include <stddef.h>

/*
 * True in libhab.so, which is never unloaded: only that has the symbol (lib.mk). It asks the
 * dynamic linker nothing at a heap's creation, because a thread that the constructor of a library
 * waits for would wait for the linker's lock.
 */
extern const char hab_is_shared __attribute__((weak, visibility("hidden")));
#define HAB_IS_SHARED (&hab_is_shared != NULL)

#endif /* HAB_LIB_SHARED_H */
