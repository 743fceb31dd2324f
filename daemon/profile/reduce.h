/* SPDX-License-Identifier: GPL-2.0-only */
/* Makes a profile smaller. */
#ifndef HABD_REDUCE_H
#define HABD_REDUCE_H

#include "daemon/profile/profile.h"

/*
 * Keeps the @most stacks with most bytes, allocated or in use, and sums the others up as "[other
 * stacks]" of their user and kind of event: no bytes are left out. Frames and binaries that no
 * stack has any more go, and events of the others.
 */
void profile_reduce(struct profile *profile, unsigned int most);

#endif /* HABD_REDUCE_H */
