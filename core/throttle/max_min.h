/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Max-min fair division of a window's quota among shares.
 */
#ifndef HAB_CORE_MAX_MIN_H
#define HAB_CORE_MAX_MIN_H

#include "core/os.h"

/**
 * struct hab_claim - the claim of a share, or of a group, to a part of the quota
 * @group: in: of hab_max_min_divide_groups()
 * @demand: in: how much it can use, at least 1
 * @chance: out, of hab_max_min_divide_groups(): with which a claim of this group got any quota,
 *	2^32 = certain
 * @quota: out: its part
 * @share: the caller's, not read
 */
struct hab_claim {
	u64 group;
	u64 demand;
	u64 chance;
	u32 quota;
	u32 share;
};

/**
 * hab_max_min_divide - divide @quota among @count claims
 * @claims: their @quota is filled in; the sum is exactly @quota
 * @count: number of claims, at least 1
 * @quota: to divide
 * @random: 64 uniform bits
 *
 * With at least as much quota as claims, each claim gets at least 1, and the division is max-min
 * fair: a claim gets less than its demand only if no other claim gets over 1 more. If all demands
 * are met, the remainder is divided evenly. With more claims than quota, @quota random claims get 1
 * each, every claim with the chance @quota / @count.
 */
void hab_max_min_divide(struct hab_claim *claims, u32 count, u64 quota, u64 random);

/**
 * hab_max_min_divide_groups - divide @quota among the groups of claims, and then within each group
 * @claims: sorted by group; their @quota and @chance are filled in; the sum is exactly @quota
 * @count: number of claims, at least 1
 * @groups: room for @count of them
 * @quota: to divide
 * @random: 64 uniform bits
 *
 * Both divisions are as by hab_max_min_divide(). The demand of a group is the sum of its claims'.
 */
void hab_max_min_divide_groups(struct hab_claim *claims, u32 count, struct hab_claim *groups,
			       u64 quota, u64 random);

#endif /* HAB_CORE_MAX_MIN_H */
