/* SPDX-License-Identifier: GPL-2.0-only */
/* Growth: what one profile has beyond an earlier one. */
#ifndef HABD_GROWTH_H
#define HABD_GROWTH_H

#include "daemon/profile/profile.h"

/*
 * Makes @profile what it has beyond @old, which may be of another duration: bytes allocated beyond
 * those at the pace of @old, and bytes in use. Stacks without more are dropped; @profile->net
 * has the difference of all.
 */
void growth_of(struct profile *profile, const struct profile *old);

#endif /* HABD_GROWTH_H */
