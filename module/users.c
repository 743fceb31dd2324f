// SPDX-License-Identifier: GPL-2.0-only
/*
 * The table of users. An entry stays when the user's last heap is gone: with a new entry the user
 * would have a full budget for each heap that is made and closed.
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

#include "core/throttle/budget.h"
#include "core/throttle/interval.h"
#include "module/users.h"

static unsigned int max_heaps_per_user = 1024;
module_param(max_heaps_per_user, uint, 0644);
MODULE_PARM_DESC(
	max_heaps_per_user,
	"How many heaps each user may have at once (default 1024; not for CAP_SYS_RESOURCE)");

/**
 * struct hab_user - a user that has made a heap
 * @nr_heaps: that exist now, under users_lock
 * @lock: of the next two; innermost
 * @budget: of bytes that count
 * @uncounted: bytes beyond it
 * @interval: of the samples of all processes together
 * @quota: that the user's processes have in the next window; while intervals are corrected
 */
struct hab_user {
	unsigned int nr_heaps;
	raw_spinlock_t lock;
	struct hab_budget budget;
	u64 uncounted;
	struct hab_interval interval;
	u64 quota;
};

static DEFINE_MUTEX(users_lock);
static DEFINE_XARRAY(users); /* by uid */

kuid_t hab_users_current(void)
{
	const struct user_namespace *ns;
	kuid_t user = current_uid();

	for (ns = current_user_ns(); ns != &init_user_ns; ns = ns->parent)
		if (!uid_eq(ns->owner, GLOBAL_ROOT_UID))
			user = ns->owner;
	return user;
}

static struct hab_user *find_user_locked(kuid_t uid)
{
	struct hab_user *user = xa_load(&users, __kuid_val(uid));
	int err;

	lockdep_assert_held(&users_lock);
	if (user)
		return user;
	user = kzalloc(sizeof(*user), GFP_KERNEL);
	if (!user)
		return ERR_PTR(-ENOMEM);
	raw_spin_lock_init(&user->lock);
	user->budget.at = ktime_get_mono_fast_ns();
	hab_interval_begin(&user->interval, NULL, HAB_SHARE_DEFAULT);
	err = xa_err(xa_store(&users, __kuid_val(uid), user, GFP_KERNEL));
	if (err) {
		kfree(user);
		return ERR_PTR(err);
	}
	return user;
}

struct hab_user *hab_users_add_heap(void)
{
	struct hab_user *user;

	mutex_lock(&users_lock);
	user = find_user_locked(hab_users_current());
	if (!IS_ERR(user)) {
		if (user->nr_heaps >= READ_ONCE(max_heaps_per_user) && !capable(CAP_SYS_RESOURCE))
			user = ERR_PTR(-ENOSPC);
		else
			user->nr_heaps++;
	}
	mutex_unlock(&users_lock);
	return user;
}

void hab_users_remove_heap(struct hab_user *user)
{
	mutex_lock(&users_lock);
	user->nr_heaps--;
	mutex_unlock(&users_lock);
}

u64 hab_users_spend(struct hab_user *user, u64 bytes)
{
	u64 counted;

	raw_spin_lock(&user->lock);
	if (hab_budget_short(&user->budget, bytes))
		hab_budget_grow(&user->budget, ktime_get_mono_fast_ns());
	counted = hab_budget_spend(&user->budget, bytes);
	WRITE_ONCE(user->uncounted, hab_add_saturated(user->uncounted, bytes - counted));
	raw_spin_unlock(&user->lock);
	return counted;
}

struct hab_interval *hab_users_interval(struct hab_user *user)
{
	return &user->interval;
}

void hab_users_add_quota(struct hab_user *user, u64 quota)
{
	user->quota += quota;
}

void hab_users_turn(u64 quota)
{
	struct hab_user *user;
	unsigned long uid;
	u32 active = 0;
	u64 fair;

	mutex_lock(&users_lock);
	xa_for_each(&users, uid, user) active += hab_interval_is_active(&user->interval);
	fair = div_u64(quota, max(active, 1u));
	xa_for_each(&users, uid, user)
	{
		hab_interval_turn(&user->interval, clamp(user->quota, fair, quota),
				  get_random_u32());
		user->quota = 0;
	}
	mutex_unlock(&users_lock);
}

void hab_users_begin(u64 quota)
{
	struct hab_user *user;
	unsigned long uid;

	mutex_lock(&users_lock);
	xa_for_each(&users, uid, user) hab_interval_begin(&user->interval, NULL, quota);
	mutex_unlock(&users_lock);
}

u64 hab_users_uncounted(void)
{
	struct hab_user *user;
	unsigned long uid;
	u64 sum = 0;

	mutex_lock(&users_lock);
	xa_for_each(&users, uid, user) sum = hab_add_saturated(sum, READ_ONCE(user->uncounted));
	mutex_unlock(&users_lock);
	return sum;
}

void hab_users_exit(void)
{
	struct hab_user *user;
	unsigned long uid;

	xa_for_each(&users, uid, user) kfree(user);
	xa_destroy(&users);
}
