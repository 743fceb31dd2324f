/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Owners: how many heaps each has, and how many bytes each may count for.
 */
#ifndef HAB_OWNERS_H
#define HAB_OWNERS_H

#include <linux/types.h>

struct hab_interval;
struct hab_owner;

/* The number of the current process's owner, see wire/owner.h. Any context of a process. */
u64 hab_owners_current(void);

/**
 * hab_owners_add_heap - count a heap for the current owner
 *
 * Context: process, may sleep.
 * Return: the owner, valid until hab_owners_remove_heap() of its last heap, or an ERR_PTR: -ENOSPC
 * at the limit of module parameter max_heaps_per_user, which CAP_SYS_RESOURCE exceeds; -ENOMEM.
 */
struct hab_owner *hab_owners_add_heap(void);

/* The heap is gone, and has not spent @batch bytes of its last batch. May sleep. */
void hab_owners_remove_heap(struct hab_owner *owner, u64 batch);

/* A process has its first heap: the owner is valid until the process has none. May sleep. */
void hab_owners_add_process(struct hab_owner *owner);
void hab_owners_remove_process(struct hab_owner *owner);

/**
 * hab_owners_spend - the part of @bytes that counts in totals and profiles
 * @owner: whose heap it is
 * @batch: bytes of the budget that the caller has already, under a lock of the caller's; NULL: none
 * @bytes: of a refill or a report
 *
 * By the owner's budget, see core/throttle/budget.h. The rest is counted as uncounted.
 *
 * Context: any of a process.
 */
u64 hab_owners_spend(struct hab_owner *owner, u64 *batch, u64 bytes);

/* The interval of the owner's new processes, and of all if they offer too many samples. */
struct hab_interval *hab_owners_interval(struct hab_owner *owner);

/**
 * hab_owners_turn - a window of the samples is over
 * @quota: samples of a window, with HAB_SHARE_SHIFT bits of fraction
 *
 * Context: process, may sleep. Calls are serialised.
 */
void hab_owners_turn(u64 quota);

/* The rate has changed: the intervals begin anew, with @quota of the machine. May sleep. */
void hab_owners_begin(u64 quota);

/* Bytes of all owners that exceeded their budgets. It saturates. */
u64 hab_owners_uncounted(void);
/* Heaps that were refused by max_heaps_per_user. */
u64 hab_owners_refused_heaps(void);

/* No heap exists. */
void hab_owners_exit(void);

/*
 * Before hab_owners_turn(): @quota of the next window is of one of its processes. @is_sampled: it
 * is expected to offer samples. May sleep.
 */
void hab_owners_add_quota(struct hab_owner *owner, u64 quota, bool is_sampled);

/*
 * Samples of a window for one of its processes, at least, with HAB_SHARE_SHIFT bits of fraction:
 * owners have equal parts, and an owner's processes equal parts of that. So the processes of one
 * owner, however many, do not make the samples of another's new one rare.
 */
u64 hab_owners_share(const struct hab_owner *owner);

#endif /* HAB_OWNERS_H */
