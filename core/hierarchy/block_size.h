/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The rule by which buffers and TLABs of automatic size grow and shrink.
 *
 * A block doubles if the one before lasted for less than 256 times what its refill took, on this
 * machine at this moment, waiting included: so the time in refills stays below one percent. It
 * halves if the one before lasted for more than 16 times that. Larger blocks would save no more
 * time and would be unused longer.
 */
#ifndef HAB_CORE_BLOCK_SIZE_H
#define HAB_CORE_BLOCK_SIZE_H

#include "core/arithmetic.h"

#define HAB_GROWTH_ENOUGH 256u /* a block should last this many times as long as its refill took */
#define HAB_GROWTH_PAUSE  16u  /* and is too large if it lasts this many times longer still */

/* The largest block, in nominal sizes, while all of the arena is free. */
#define HAB_GROWTH_GUIDED 4u
/* A block above its nominal size is at most the free memory divided by this. */
#define HAB_GROWTH_PARTS 16u

/* The size of the next block: the last one had @size, @lasted ns, and its refill @took ns. */
static inline u64 hab_growth_next(u64 size, u64 lasted, u64 took)
{
	u64 enough = took * HAB_GROWTH_ENOUGH;

	if (lasted < enough)
		return size * 2;
	return lasted / HAB_GROWTH_PAUSE > enough ? size / 2 : size;
}

/*
 * The largest block of nominal size @nominal: more while most of the arena is free, falling with
 * @free to @nominal (guided self-scheduling, Polychronopoulos and Kuck 1987). Unused memory in
 * buffers matters only when the arena is full, and by then blocks are small.
 */
static inline u64 hab_growth_largest(u64 nominal, u64 free, u64 arena)
{
	u64 guided = hab_mul_div(nominal * HAB_GROWTH_GUIDED, free, arena);

	guided = min(guided, free / HAB_GROWTH_PARTS);
	return max(nominal, guided);
}

#endif /* HAB_CORE_BLOCK_SIZE_H */
