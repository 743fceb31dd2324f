/* SPDX-License-Identifier: GPL-2.0-only */
/* Merges profiles that were read into one. */
#ifndef HABD_MERGE_H
#define HABD_MERGE_H

#include "daemon/profile/profile.h"

struct merge;

struct merge *merge_begin(void);
/*
 * Adds what was allocated in @from, and its events. in_use: adds what is in use in it, too: so the
 * profiles that are added like this are of one time.
 */
void merge_add(struct merge *merge, const struct profile *from, bool in_use);
/* How many stacks the profile has until now. */
unsigned int merge_stacks(const struct merge *merge);
unsigned int merge_frames(const struct merge *merge);
/* The merged profile, with all kinds of events. It frees the merge. */
struct profile *merge_end(struct merge *merge);

#endif /* HABD_MERGE_H */
