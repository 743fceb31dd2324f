/* SPDX-License-Identifier: GPL-2.0-only */
/* What tests that run in the kernel use of the C library. */
#ifndef HAB_KUNIT_STDLIB_H
#define HAB_KUNIT_STDLIB_H

#include <linux/mm.h>
#include <linux/prandom.h>

static inline void *calloc(size_t nr, size_t size)
{
	return kvcalloc(nr, size, GFP_KERNEL);
}

static inline void free(void *memory)
{
	kvfree(memory);
}

static struct rnd_state hab_random;

static inline void srand(unsigned int seed)
{
	prandom_seed_state(&hab_random, seed);
}

static inline int rand(void)
{
	return prandom_u32_state(&hab_random) & INT_MAX;
}

#define srandom(seed) srand(seed)
#define random()      ((long)rand())

#endif /* HAB_KUNIT_STDLIB_H */
