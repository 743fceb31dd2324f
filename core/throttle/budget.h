/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * How many bytes an owner's refills and reports count for. A refill of a whole arena, a reset, and
 * again: that grants terabytes in a microsecond that no program has written to, and a sum of them
 * in 64 bits is full in seconds. So an owner has a budget, and what exceeds it is counted apart.
 *
 * It grows by HAB_BUDGET_RATE bytes a nanosecond, which is more than the memory of any machine
 * takes, and holds HAB_BUDGET_MAX, the largest arena, at most and at first. So the events of
 * programs that use their memory count in full.
 *
 * Heaps take it in batches, so that the refills of an owner's many heaps rarely meet at its budget.
 *
 * An owner who does nothing else adds 1.1e12 bytes a second: a sum passes 2^63 after 97 days.
 * So all sums also saturate.
 */
#ifndef HAB_CORE_BUDGET_H
#define HAB_CORE_BUDGET_H

#include "core/os.h"
#include "uapi/hab.h"

#define HAB_BUDGET_RATE 1024ull
#define HAB_BUDGET_MAX	HAB_ARENA_MAX
#define HAB_BUDGET_BATCH (64ull << 20)
/* An empty one is full after so many nanoseconds. */
#define HAB_BUDGET_FULL_NS (HAB_BUDGET_MAX / HAB_BUDGET_RATE)

/**
 * struct hab_budget - an owner's budget; full if @spent is 0
 * @spent: HAB_BUDGET_MAX less what it holds
 * @at: the time up to which it has grown, in nanoseconds; the caller sets it at first
 */
struct hab_budget {
	u64 spent;
	u64 at;
};

/* true if @bytes need more than the budget held last, so that hab_budget_grow() comes first. */
static inline bool hab_budget_short(const struct hab_budget *budget, u64 bytes)
{
	return bytes > HAB_BUDGET_MAX - budget->spent;
}

static inline void hab_budget_grow(struct hab_budget *budget, u64 now)
{
	u64 elapsed = now > budget->at ? now - budget->at : 0;

	/* More than fills it; the product must not wrap. */
	elapsed = min(elapsed, HAB_BUDGET_FULL_NS);
	budget->spent -= min(budget->spent, elapsed * HAB_BUDGET_RATE);
	budget->at = now;
}

/* The part of @bytes that counts. */
static inline u64 hab_budget_spend(struct hab_budget *budget, u64 bytes)
{
	u64 counted = min(bytes, HAB_BUDGET_MAX - budget->spent);

	budget->spent += counted;
	return counted;
}

/* Gives back what was spent and did not count. */
static inline void hab_budget_give_back(struct hab_budget *budget, u64 bytes)
{
	budget->spent -= min(budget->spent, bytes);
}

#endif /* HAB_CORE_BUDGET_H */
