/* SPDX-License-Identifier: GPL-2.0-only */
/* What the modes of harm.c share. */
#ifndef SELFTESTS_HARM_H
#define SELFTESTS_HARM_H

#include <stddef.h>
#include <stdint.h>

/* Ends the program. */
void harmed(const char *what) __attribute__((noreturn));
uint64_t harm_random(void);
/* Allocates and frees, so much that samples are taken; checks what is in the objects. */
void harm_churn(size_t bytes);

/* harm_family.c, of the program and of its plugin: each function of the family of malloc(). */
void *family_allocate(unsigned int form, size_t size);
void *family_resize(unsigned int form, void *p, size_t size);
void family_free(void *p);
size_t family_usable(void *p);

/* Modes. */
void run_deepbind(void);
void run_namespace(void);
void run_own_malloc(void);
void run_waiting_constructor(void);
void run_pools(void);
void run_coroutines(void);
void run_switched_stacks(void);
void run_alternate_stacks(void);
void run_order(void);

#endif /* SELFTESTS_HARM_H */
