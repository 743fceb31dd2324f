/* SPDX-License-Identifier: GPL-2.0-only */
/* The mechanisms. */
#ifndef HAB_BENCH_MECHANISMS_LOOPS_H
#define HAB_BENCH_MECHANISMS_LOOPS_H

#include <stddef.h>
#include <stdint.h>

#define BENCH_MECHANISMS 12

struct hab_heap;

/**
 * struct bench_mechanism - a way to take memory
 * @name: in the results
 * @loop: takes memory @n times
 * @heap: the heap in use; NULL: none
 */
struct bench_mechanism {
	const char *name;
	void (*loop)(uint64_t n);
	struct hab_heap **heap;
};

extern const struct bench_mechanism bench_mechanisms[BENCH_MECHANISMS];

/* Creates the heaps of hab's mechanisms with arenas of @arena bytes; ends the program on errors. */
void bench_create_heaps(size_t arena);

#endif /* HAB_BENCH_MECHANISMS_LOOPS_H */
