/* SPDX-License-Identifier: GPL-2.0-only */
/* Names of C++ and Rust functions as their authors wrote them. */
#ifndef HABD_DEMANGLE_H
#define HABD_DEMANGLE_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Writes the name without parameters and with a closing NUL. False if it is not a mangled
 * one, or too long: it stays as it is.
 */
bool demangle(const char *mangled, char *name, size_t size);

#endif /* HABD_DEMANGLE_H */
