/* SPDX-License-Identifier: GPL-2.0-only */
/* The user that a uid counts for in limits by user. */
#ifndef HABD_OWNERS_H
#define HABD_OWNERS_H

#include <stdbool.h>
#include <sys/types.h>

/* Reads the subordinate uids (subuid(5)). Before the program has threads. */
void owners_begin(void);
/* The owner of a subordinate uid; for another uid itself. */
uid_t owner_of(uid_t user);
/* True for root and the user of this program. */
bool owner_is_privileged(uid_t user);

#endif /* HABD_OWNERS_H */
