/* SPDX-License-Identifier: GPL-2.0-only */
/* What the modes of target.c share: its sites, and waiting for the collector. */
#ifndef SELFTESTS_TARGET_SITES_H
#define SELFTESTS_TARGET_SITES_H

#include <stddef.h>

void die(const char *what) __attribute__((noreturn));
/*
 * Until the collector has taken what there is: channels and records. With PACED_BY_RING in the
 * environment it is one that does not answer, and its position in the ring says what it has taken.
 */
void wait_for_collector(void);
/* Waits now and then, so that the ring is never full. */
void pace(size_t bytes);

/* Each allocates in a section of its own, and counts. */
void *small_leak(size_t size);
void *churn(size_t size);
void *zeroed(size_t size);
void *vector(size_t size);
/* Prints the address of each site and what it has allocated. */
void print_sites(void);

/* Modes. */
void run_sites(void);
void run_buffers(void);
void run_many(void);
void run_ways(void);
void run_ways_of_threads(void);
/* These print sites of their own. */
void run_growth(void);
void run_much_growth(void);
void run_growth_at_once(void);
void run_pages(void);

#endif /* SELFTESTS_TARGET_SITES_H */
