/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Users: how many heaps each has, and how many bytes each may count for.
 */
#ifndef HAB_USERS_H
#define HAB_USERS_H

#include <linux/uidgid.h>

struct hab_interval;
struct hab_user;

/**
 * hab_users_current - the user that the current process counts for
 *
 * Its uid. In a user namespace it is the owner of the outermost one that is not root's, as those of
 * a container manager are: a user may have thousands of subordinate uids there, and must not get a
 * limit or a share for each of them.
 *
 * Context: any of a process.
 */
kuid_t hab_users_current(void);

/**
 * hab_users_add_heap - count a heap for the current user
 *
 * Context: process, may sleep.
 * Return: the user, valid until the module is unloaded, or an ERR_PTR: -ENOSPC at the limit of
 * module parameter max_heaps_per_user, which CAP_SYS_RESOURCE exceeds; -ENOMEM.
 */
struct hab_user *hab_users_add_heap(void);

/* The heap is gone. */
void hab_users_remove_heap(struct hab_user *user);

/**
 * hab_users_spend - the part of @bytes that counts in totals and profiles
 * @user: whose heap it is
 * @bytes: of a refill or a report
 *
 * By the user's budget, see core/throttle/budget.h. The rest is counted as uncounted.
 *
 * Context: any of a process.
 */
u64 hab_users_spend(struct hab_user *user, u64 bytes);

/* The interval of the user's new processes, and of all if they offer too many samples. */
struct hab_interval *hab_users_interval(struct hab_user *user);

/**
 * hab_users_turn - a window of the samples is over
 * @quota: samples of a window, with HAB_SHARE_SHIFT bits of fraction
 *
 * Context: process, may sleep. Calls are serialised.
 */
void hab_users_turn(u64 quota);

/* The rate has changed: the intervals begin anew, with @quota of the machine. May sleep. */
void hab_users_begin(u64 quota);

/* Bytes of all users that exceeded their budgets. It saturates. May sleep. */
u64 hab_users_uncounted(void);

/* No heap exists. */
void hab_users_exit(void);

/* Before hab_users_turn(): @quota of the next window is one of the user's processes'. */
void hab_users_add_quota(struct hab_user *user, u64 quota);

#endif /* HAB_USERS_H */
