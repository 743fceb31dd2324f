// SPDX-License-Identifier: GPL-2.0-only
/*
 * The table of owners. An entry stays when the owner's last heap is gone: with a new entry the
 * owner would have a full budget for each heap that is made and closed. A later namespace with the
 * same inode number goes on with the entry.
 */
#include <linux/capability.h>
#include <linux/cred.h>
#include <linux/ktime.h>
#include <linux/moduleparam.h>
#include <linux/mutex.h>
#include <linux/random.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/user_namespace.h>
#include <linux/xarray.h>

#include "core/owner.h"
#include "core/throttle/budget.h"
#include "core/throttle/interval.h"
#include "module/owners.h"

static unsigned int max_heaps_per_user = 1024;
module_param(max_heaps_per_user, uint, 0644);
MODULE_PARM_DESC(
	max_heaps_per_user,
	"How many heaps each owner may have at once (default 1024; not for CAP_SYS_RESOURCE)");

/**
 * struct hab_owner - an owner that has made a heap
 * @nr_heaps: that exist now, under owners_lock
 * @lock: of the next two; innermost
 * @budget: of bytes that count
 * @uncounted: bytes beyond it
 * @interval: of the samples of all processes together
 * @quota: that the owner's processes have in the next window; while intervals are corrected
 */
struct hab_owner {
	unsigned int nr_heaps;
	raw_spinlock_t lock;
	struct hab_budget budget;
	u64 uncounted;
	struct hab_interval interval;
	u64 quota;
};

static DEFINE_MUTEX(owners_lock);
static DEFINE_XARRAY(owners); /* by number, see core/owner.h */

u64 hab_owners_current(void)
{
	const struct user_namespace *ns = current_user_ns();

	if (ns == &init_user_ns)
		return __kuid_val(current_uid());
	while (ns->parent != &init_user_ns)
		ns = ns->parent;
	return hab_owner_of_namespace(__kuid_val(ns->owner), ns->ns.inum);
}

static struct hab_owner *find_owner_locked(u64 number)
{
	struct hab_owner *owner = xa_load(&owners, number);
	int err;

	BUILD_BUG_ON(sizeof(unsigned long) < sizeof(number)); /* the index of the table */
	lockdep_assert_held(&owners_lock);
	if (owner)
		return owner;
	owner = kzalloc(sizeof(*owner), GFP_KERNEL);
	if (!owner)
		return ERR_PTR(-ENOMEM);
	raw_spin_lock_init(&owner->lock);
	owner->budget.at = ktime_get_mono_fast_ns();
	hab_interval_begin(&owner->interval, NULL, HAB_SHARE_DEFAULT);
	err = xa_err(xa_store(&owners, number, owner, GFP_KERNEL));
	if (err) {
		kfree(owner);
		return ERR_PTR(err);
	}
	return owner;
}

struct hab_owner *hab_owners_add_heap(void)
{
	struct hab_owner *owner;

	mutex_lock(&owners_lock);
	owner = find_owner_locked(hab_owners_current());
	if (!IS_ERR(owner)) {
		if (owner->nr_heaps >= READ_ONCE(max_heaps_per_user) && !capable(CAP_SYS_RESOURCE))
			owner = ERR_PTR(-ENOSPC);
		else
			owner->nr_heaps++;
	}
	mutex_unlock(&owners_lock);
	return owner;
}

void hab_owners_remove_heap(struct hab_owner *owner)
{
	mutex_lock(&owners_lock);
	owner->nr_heaps--;
	mutex_unlock(&owners_lock);
}

u64 hab_owners_spend(struct hab_owner *owner, u64 bytes)
{
	u64 counted;

	raw_spin_lock(&owner->lock);
	if (hab_budget_short(&owner->budget, bytes))
		hab_budget_grow(&owner->budget, ktime_get_mono_fast_ns());
	counted = hab_budget_spend(&owner->budget, bytes);
	WRITE_ONCE(owner->uncounted, hab_add_saturated(owner->uncounted, bytes - counted));
	raw_spin_unlock(&owner->lock);
	return counted;
}

struct hab_interval *hab_owners_interval(struct hab_owner *owner)
{
	return &owner->interval;
}

void hab_owners_add_quota(struct hab_owner *owner, u64 quota)
{
	owner->quota += quota;
}

void hab_owners_turn(u64 quota)
{
	struct hab_owner *owner;
	unsigned long number;
	u32 active = 0;
	u64 fair;

	mutex_lock(&owners_lock);
	xa_for_each(&owners, number, owner) active += hab_interval_is_active(&owner->interval);
	fair = div_u64(quota, max(active, 1u));
	xa_for_each(&owners, number, owner)
	{
		hab_interval_turn(&owner->interval, clamp(owner->quota, fair, quota),
				  get_random_u32());
		owner->quota = 0;
	}
	mutex_unlock(&owners_lock);
}

void hab_owners_begin(u64 quota)
{
	struct hab_owner *owner;
	unsigned long number;

	mutex_lock(&owners_lock);
	xa_for_each(&owners, number, owner) hab_interval_begin(&owner->interval, NULL, quota);
	mutex_unlock(&owners_lock);
}

u64 hab_owners_uncounted(void)
{
	struct hab_owner *owner;
	unsigned long number;
	u64 sum = 0;

	mutex_lock(&owners_lock);
	xa_for_each(&owners, number, owner)
		sum = hab_add_saturated(sum, READ_ONCE(owner->uncounted));
	mutex_unlock(&owners_lock);
	return sum;
}

void hab_owners_exit(void)
{
	struct hab_owner *owner;
	unsigned long number;

	xa_for_each(&owners, number, owner) kfree(owner);
	xa_destroy(&owners);
}
