/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * How a window's points are divided among those who want them: max-min fairly.
 */
#ifndef HAB_CORE_BUDGET_H
#define HAB_CORE_BUDGET_H

#include "os.h"

/**
 * struct hab_claim - one that wants points
 * @demand: in: how many it can use, at least 1
 * @points: out: what it got
 * @share: the caller's, not looked at
 */
struct hab_claim {
	u64 demand;
	u32 points;
	u32 share;
};

/**
 * hab_budget_divide - divide @points among @count claims
 * @claims: their points are filled in; the sum is @points, exactly
 * @count: at least 1
 * @points: how many there are
 * @random: 64 uniform bits
 *
 * If there are points for all, nobody gets less than 1; nobody gets less than his demand
 * while another has more than him by 2; and what is left when all demands are met
 * is divided evenly. If there are more claims than points, @points of them get 1 each,
 * chosen at random, every claim with the same chance @points / @count.
 */
void hab_budget_divide(struct hab_claim *claims, u32 count, u64 points, u64 random);

#endif /* HAB_CORE_BUDGET_H */
