/* SPDX-License-Identifier: GPL-2.0-only */
/* Names of C++, Rust and D functions in the form of their source. */
#ifndef HABD_DEMANGLE_H
#define HABD_DEMANGLE_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Writes the name; of C++ the parameters only if they are wanted, of D always. False if @mangled is
 * not mangled, or @name is too short.
 */
bool demangle(const char *mangled, bool parameters, char *name, size_t size);

#endif /* HABD_DEMANGLE_H */
