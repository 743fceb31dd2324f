/* SPDX-License-Identifier: GPL-2.0-only */
/* Code that habrun copies into a program, and its entry. See stub.c. */
#ifndef HABRUN_STUB_H
#define HABRUN_STUB_H

#include "wire/attach_page.h"

/* All of it; the linker gives the section these names. */
extern const char __start_hab_stub[] __attribute__((visibility("hidden")));
extern const char __stop_hab_stub[] __attribute__((visibility("hidden")));

/*
 * Where the borrowed thread begins, with the stack's end in its stack pointer; in the file of the
 * architecture. Keeps the vector registers, calls stub_borrow() with the page, and sets all
 * registers as the page says, should that return.
 */
void stub_entry(void);

void stub_borrow(struct hab_attach_page *page);

#endif /* HABRUN_STUB_H */
