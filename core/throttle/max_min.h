/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * How a window's quota are divided among those who want them: max-min fairly.
 */
#ifndef HAB_CORE_MAX_MIN_H
#define HAB_CORE_MAX_MIN_H

#include "core/os.h"

/**
 * struct hab_claim - one that wants quota
 * @demand: in: how many it can use, at least 1
 * @quota: out: what it got
 * @share: the caller's, not looked at
 */
struct hab_claim {
	u64 demand;
	u32 quota;
	u32 share;
};

/**
 * hab_max_min_divide - divide @quota among @count claims
 * @claims: their quota are filled in; the sum is @quota, exactly
 * @count: at least 1
 * @quota: how many there are
 * @random: 64 uniform bits
 *
 * If there are quota for all, nobody gets less than 1; nobody gets less than his demand
 * while another has more than him by 2; and what is left when all demands are met
 * is divided evenly. If there are more claims than quota, @quota of them get 1 each,
 * chosen at random, every claim with the same chance @quota / @count.
 */
void hab_max_min_divide(struct hab_claim *claims, u32 count, u64 quota, u64 random);

#endif /* HAB_CORE_MAX_MIN_H */
