/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Users, and how many heaps each has.
 */
#ifndef HAB_USERS_H
#define HAB_USERS_H

#include <linux/uidgid.h>

/**
 * hab_users_current - the user that the current process counts for
 *
 * Its uid. In a user namespace it is the owner of the outermost one: a user may have thousands of
 * subordinate uids there, and must not get a limit or a share for each of them. Where the owner is
 * root, as of a container manager's namespaces, it is the uid again.
 *
 * Context: any of a process.
 */
kuid_t hab_users_current(void);

/**
 * hab_users_add_heap - count a heap of a user
 * @user: of hab_users_current()
 *
 * Context: process, may sleep.
 * Return: 0; -ENOSPC at the limit of module parameter max_heaps_per_user, which CAP_SYS_RESOURCE
 * exceeds; -ENOMEM.
 */
int hab_users_add_heap(kuid_t user);

/* The heap is gone. */
void hab_users_remove_heap(kuid_t user);

#endif /* HAB_USERS_H */
