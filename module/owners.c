// SPDX-License-Identifier: GPL-2.0-only
/*
 * The table of owners. An entry stays after the owner's last heap is gone until its budget is full
 * again: with a new entry the owner would have a full budget for each heap that is made and closed.
 * Entries are charged to the memory cgroup of the process that makes them: root in a container may
 * make one for each uid.
 *
 * At the end of a window only the owners are looked at that have offered samples lately.
 */
#include <linux/capability.h>
#include <linux/cred.h>
#include <linux/hashtable.h>
#include <linux/ktime.h>
#include <linux/moduleparam.h>
#include <linux/mutex.h>
#include <linux/random.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/user_namespace.h>
#include <linux/workqueue.h>

#include "wire/owner.h"
#include "core/throttle/budget.h"
#include "wire/interval.h"
#include "module/owners.h"

static unsigned int max_heaps_per_user = 1024;
module_param(max_heaps_per_user, uint, 0644);
MODULE_PARM_DESC(max_heaps_per_user,
		 "Heaps an owner may have at once (default 1024; not for CAP_SYS_RESOURCE)");

/**
 * struct hab_owner - an owner that has made a heap
 * @number: see wire/owner.h
 * @place: in the table; under owners_lock
 * @nr_heaps: that exist now; this and the next five under owners_lock
 * @nr_processes: whose first heap was this owner's; it may be gone, and others be another owner's
 * @idle: in the list of owners without either, in the order of @idle_since
 * @idle_since: in nanoseconds
 * @active: in the list of owners whose intervals are corrected
 * @quota: that the owner's processes have in the next window; while intervals are corrected
 * @nr_sampled: of these processes, those that are expected to offer samples; likewise
 * @share: of each of them, see hab_owners_share(); 0: none was expected to
 * @interval: of the samples of all processes together
 * @lock: of the budget; innermost
 * @budget: of bytes that count
 */
struct hab_owner {
	u64 number;
	struct hlist_node place;
	unsigned int nr_heaps;
	unsigned int nr_processes;
	struct list_head idle;
	u64 idle_since;
	struct list_head active;
	u64 quota;
	u32 nr_sampled;
	u64 share;
	struct hab_interval interval;
	raw_spinlock_t lock;
	struct hab_budget budget;
};

/* Inside it no memory is allocated: a process at its limit of memory would make others wait. */
static DEFINE_MUTEX(owners_lock);
static DEFINE_HASHTABLE(owners, 10); /* by number */
static LIST_HEAD(idle_owners);
static LIST_HEAD(active_owners);
/* Samples of a window for each active owner. */
static u64 fair_share = HAB_SHARE_DEFAULT;
static atomic64_t uncounted = ATOMIC64_INIT(0);
static u64 refused_heaps;

static void forget_owners(struct work_struct *work);
static DECLARE_DELAYED_WORK(forget_work, forget_owners);

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
	struct hab_owner *owner;

	lockdep_assert_held(&owners_lock);
	hash_for_each_possible(owners, owner, place, number)
		if (owner->number == number)
			return owner;
	return NULL;
}

static void add_owner_locked(struct hab_owner *owner, u64 number)
{
	lockdep_assert_held(&owners_lock);
	owner->number = number;
	INIT_LIST_HEAD(&owner->idle);
	INIT_LIST_HEAD(&owner->active);
	raw_spin_lock_init(&owner->lock);
	owner->budget.at = ktime_get_mono_fast_ns();
	hab_interval_begin(&owner->interval, NULL, HAB_SHARE_DEFAULT);
	hash_add(owners, &owner->place, number);
}

static void drop_owner_locked(struct hab_owner *owner)
{
	lockdep_assert_held(&owners_lock);
	list_del(&owner->idle);
	list_del(&owner->active);
	hash_del(&owner->place);
	kfree(owner);
}

/* The budgets of those that are idle for long enough are full. */
static void forget_owners(struct work_struct *work)
{
	struct hab_owner *owner;
	u64 now = ktime_get_mono_fast_ns();
	bool is_full = true;

	while (is_full) {
		mutex_lock(&owners_lock);
		owner = list_first_entry_or_null(&idle_owners, struct hab_owner, idle);
		is_full = owner && now > owner->idle_since + HAB_BUDGET_FULL_NS;
		if (is_full)
			drop_owner_locked(owner);
		else if (owner)
			schedule_delayed_work(&forget_work, HZ);
		mutex_unlock(&owners_lock);
		cond_resched();
	}
}

/* One that has neither heaps nor processes is idle from now on. */
static void set_idle_locked(struct hab_owner *owner)
{
	lockdep_assert_held(&owners_lock);
	list_del_init(&owner->idle);
	if (owner->nr_heaps || owner->nr_processes)
		return;
	owner->idle_since = ktime_get_mono_fast_ns();
	list_add_tail(&owner->idle, &idle_owners);
	schedule_delayed_work(&forget_work, HZ);
}

struct hab_owner *hab_owners_add_heap(void)
{
	struct hab_owner *made = kzalloc(sizeof(*made), GFP_KERNEL_ACCOUNT), *found, *owner;

	if (!made)
		return ERR_PTR(-ENOMEM);
	mutex_lock(&owners_lock);
	found = find_owner_locked(hab_owners_current());
	if (!found) {
		found = made;
		made = NULL;
		add_owner_locked(found, hab_owners_current());
	}
	owner = found;
	if (found->nr_heaps >= READ_ONCE(max_heaps_per_user) && !capable(CAP_SYS_RESOURCE)) {
		owner = ERR_PTR(-ENOSPC);
		WRITE_ONCE(refused_heaps, refused_heaps + 1);
	} else {
		found->nr_heaps++;
	}
	set_idle_locked(found);
	mutex_unlock(&owners_lock);
	kfree(made);
	return owner;
}

void hab_owners_remove_heap(struct hab_owner *owner, u64 batch)
{
	raw_spin_lock(&owner->lock);
	hab_budget_give_back(&owner->budget, batch);
	raw_spin_unlock(&owner->lock);
	mutex_lock(&owners_lock);
	owner->nr_heaps--;
	set_idle_locked(owner);
	mutex_unlock(&owners_lock);
}

void hab_owners_add_process(struct hab_owner *owner)
{
	mutex_lock(&owners_lock);
	owner->nr_processes++;
	mutex_unlock(&owners_lock);
}

void hab_owners_remove_process(struct hab_owner *owner)
{
	mutex_lock(&owners_lock);
	owner->nr_processes--;
	set_idle_locked(owner);
	mutex_unlock(&owners_lock);
}

static noinline void add_uncounted(u64 bytes)
{
	s64 old = atomic64_read(&uncounted);

	while (!atomic64_try_cmpxchg(&uncounted, &old, hab_add_saturated(old, bytes)))
		;
}

u64 hab_owners_spend(struct hab_owner *owner, u64 *batch, u64 bytes)
{
	u64 has = batch ? *batch : 0, more = bytes - min(bytes, has), counted;

	if (more) {
		/* The sum does not wrap: a refill has at most the largest arena. */
		more = batch ? more + HAB_BUDGET_BATCH : more;
		raw_spin_lock(&owner->lock);
		if (hab_budget_short(&owner->budget, more))
			hab_budget_grow(&owner->budget, ktime_get_mono_fast_ns());
		has += hab_budget_spend(&owner->budget, more);
		raw_spin_unlock(&owner->lock);
	}
	counted = min(bytes, has);
	if (batch)
		*batch = has - counted;
	if (unlikely(counted < bytes))
		add_uncounted(bytes - counted);
	return counted;
}

struct hab_interval *hab_owners_interval(struct hab_owner *owner)
{
	return &owner->interval;
}

u64 hab_owners_share(const struct hab_owner *owner)
{
	return READ_ONCE(owner->share) ?: READ_ONCE(fair_share);
}

void hab_owners_add_quota(struct hab_owner *owner, u64 quota, bool is_sampled)
{
	mutex_lock(&owners_lock);
	owner->quota += quota;
	owner->nr_sampled += is_sampled;
	if (list_empty(&owner->active))
		list_add_tail(&owner->active, &active_owners);
	mutex_unlock(&owners_lock);
}

void hab_owners_turn(u64 quota)
{
	struct hab_owner *owner, *next;
	u32 active = 0;
	u64 fair, share;

	mutex_lock(&owners_lock);
	list_for_each_entry(owner, &active_owners, active)
		active += hab_interval_is_active(&owner->interval);
	fair = max(div_u64(quota, max(active, 1u)), 1ull);
	WRITE_ONCE(fair_share, fair);
	list_for_each_entry_safe(owner, next, &active_owners, active) {
		hab_interval_turn(&owner->interval, clamp(owner->quota, fair, quota),
				  get_random_u32());
		share = owner->nr_sampled ? max(div_u64(fair, owner->nr_sampled), 1ull) : 0;
		WRITE_ONCE(owner->share, share);
		owner->quota = 0;
		owner->nr_sampled = 0;
		if (hab_interval_is_active(&owner->interval))
			continue;
		list_del_init(&owner->active);
		WRITE_ONCE(owner->share, 0);
	}
	mutex_unlock(&owners_lock);
}

void hab_owners_begin(u64 quota)
{
	struct hab_owner *owner;
	int bucket;

	mutex_lock(&owners_lock);
	WRITE_ONCE(fair_share, max(quota, 1ull));
	hash_for_each(owners, bucket, owner, place) {
		hab_interval_begin(&owner->interval, NULL, quota);
		WRITE_ONCE(owner->share, 0);
	}
	mutex_unlock(&owners_lock);
}

u64 hab_owners_uncounted(void)
{
	return atomic64_read(&uncounted);
}

u64 hab_owners_refused_heaps(void)
{
	return READ_ONCE(refused_heaps);
}

void hab_owners_exit(void)
{
	struct hab_owner *owner, *next;

	cancel_delayed_work_sync(&forget_work);
	mutex_lock(&owners_lock);
	list_for_each_entry_safe(owner, next, &idle_owners, idle)
		drop_owner_locked(owner);
	mutex_unlock(&owners_lock);
}
