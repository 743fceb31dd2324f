// SPDX-License-Identifier: GPL-2.0-only
/*
 * The table of processes that have heaps. All heaps of a process have one sampling interval, so the
 * number of its heaps does not change what it may keep. Samples of a heap that a child uses count
 * for the process that made it, refills for the child.
 *
 * At the end of a window only the processes are looked at that have offered samples lately.
 */
#include <linux/err.h>
#include <linux/hashtable.h>
#include <linux/jiffies.h>
#include <linux/mutex.h>
#include <linux/pid.h>
#include <linux/random.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/spinlock.h>

#include "wire/interval.h"
#include "core/throttle/throttle.h"
#include "module/events.h"
#include "module/processes.h"
#include "module/owners.h"

/**
 * struct hab_process - a process that has heaps
 * @nr_heaps: under processes_lock
 * @place: in the table
 * @heaps: list of them, see module/heap.c
 * @active: in the list of processes whose intervals are corrected, if @is_active
 * @is_active: it has offered samples lately
 * @pid: a reference: another process with that number has another one
 * @key: of the share in which its last sample counted; 0: none so far
 * @interval: of its samples
 * @owner: of its first heap
 * @is_known: one of its threads has fired hab_refills, so that listeners know its name
 * @lock: of the next two
 * @refills: that hab_refills has not reported so far
 * @next_report: in jiffies: when a refill reports them. Reports of others do not delay it, so that
 *	a new listener knows the process's name.
 */
struct hab_process {
	unsigned int nr_heaps;
	struct hlist_node place;
	struct list_head heaps;
	struct list_head active;
	bool is_active;
	struct pid *pid;
	u64 key;
	struct hab_interval interval;
	struct hab_owner *owner;
	bool is_known;
	raw_spinlock_t lock;
	struct hab_refills_event refills;
	unsigned long next_report;
};

/* Inside it no memory is allocated: a process at its limit of memory would make others wait. */
static DEFINE_MUTEX(processes_lock);
static DEFINE_HASHTABLE(processes, 10); /* by @pid */
/* Innermost. Processes leave the list under processes_lock, too. */
static DEFINE_SPINLOCK(active_lock);
static LIST_HEAD(active_processes);

static struct hab_process *find_process_locked(struct pid *pid)
{
	struct hab_process *process;

	lockdep_assert_held(&processes_lock);
	hash_for_each_possible(processes, process, place, (unsigned long)pid)
		if (process->pid == pid)
			return process;
	return NULL;
}

static void add_process_locked(struct hab_process *process, struct pid *pid,
			       struct hab_owner *owner)
{
	lockdep_assert_held(&processes_lock);
	process->owner = owner;
	INIT_LIST_HEAD(&process->heaps);
	INIT_LIST_HEAD(&process->active);
	raw_spin_lock_init(&process->lock);
	process->refills.pid = pid_nr(pid);
	process->next_report = jiffies;
	hab_interval_begin(&process->interval, hab_owners_interval(owner), hab_owners_share(owner));
	process->pid = get_pid(pid);
	hash_add(processes, &process->place, (unsigned long)pid);
	hab_owners_add_process(owner);
}

struct hab_process *hab_processes_add_heap(struct hab_owner *owner)
{
	struct hab_process *made = kzalloc(sizeof(*made), GFP_KERNEL_ACCOUNT), *process;

	if (!made)
		return ERR_PTR(-ENOMEM);
	mutex_lock(&processes_lock);
	process = find_process_locked(task_tgid(current));
	if (!process) {
		process = made;
		made = NULL;
		add_process_locked(process, task_tgid(current), owner);
	}
	process->nr_heaps++;
	mutex_unlock(&processes_lock);
	kfree(made);
	return process;
}

struct list_head *hab_process_heaps(struct hab_process *process)
{
	return &process->heaps;
}

static void set_active(struct hab_process *process, bool is_active)
{
	spin_lock(&active_lock);
	if (is_active && !process->is_active)
		list_add_tail(&process->active, &active_processes);
	else if (!is_active && process->is_active)
		list_del(&process->active);
	WRITE_ONCE(process->is_active, is_active);
	spin_unlock(&active_lock);
}

/* Without delay; then the process is known, if it is the current one. */
static noinline void fire_refill(struct hab_process *process, u64 bytes, u64 restarts,
				 u64 waste_bytes, hab_fire_refills fire)
{
	struct hab_refills_event event = {
		.pid = task_tgid_nr(current),
		.refills = 1,
		.bytes = bytes,
		.restarts = restarts,
		.waste_bytes = waste_bytes,
	};

	fire(&event);
	/* Pairs with the load in hab_process_refill(). */
	if (process->pid == task_tgid(current))
		smp_store_release(&process->is_known, true);
}

void hab_process_refill(struct hab_process *process, u64 bytes, u64 restarts, u64 waste_bytes,
			hab_fire_refills fire)
{
	struct hab_refills_event *sum = &process->refills;
	bool is_due;

	/*
	 * Another process may report what waits, see hab_processes_take_refills(), and then a
	 * listener that does not know this one cannot see its name.
	 */
	if (unlikely(process->pid != task_tgid(current) || !smp_load_acquire(&process->is_known))) {
		fire_refill(process, bytes, restarts, waste_bytes, fire);
		return;
	}
	raw_spin_lock(&process->lock);
	sum->refills++;
	sum->bytes = hab_add_saturated(sum->bytes, bytes);
	sum->restarts = hab_add_saturated(sum->restarts, restarts);
	sum->waste_bytes = hab_add_saturated(sum->waste_bytes, waste_bytes);
	is_due = time_after_eq(jiffies, process->next_report);
	if (is_due)
		process->next_report = jiffies + msecs_to_jiffies(HAB_REFILLS_MS);
	raw_spin_unlock(&process->lock);
	if (unlikely(is_due))
		hab_process_take_refills(process, fire);
}

void hab_process_take_refills(struct hab_process *process, hab_fire_refills fire)
{
	struct hab_refills_event sum;

	raw_spin_lock(&process->lock);
	sum = process->refills;
	process->refills = (struct hab_refills_event){ .pid = sum.pid };
	raw_spin_unlock(&process->lock);
	if (sum.refills)
		fire(&sum);
}

void hab_processes_take_refills(hab_fire_refills fire)
{
	struct hab_process *process;
	int bucket;

	mutex_lock(&processes_lock);
	hash_for_each(processes, bucket, process, place)
		hab_process_take_refills(process, fire);
	mutex_unlock(&processes_lock);
}

void hab_processes_remove_heap(struct hab_process *process)
{
	mutex_lock(&processes_lock);
	if (!--process->nr_heaps) {
		set_active(process, false);
		hash_del(&process->place);
		put_pid(process->pid);
		hab_owners_remove_process(process->owner);
		kfree(process);
	}
	mutex_unlock(&processes_lock);
}

u64 hab_process_interval(const struct hab_process *process)
{
	return READ_ONCE(process->interval.mean);
}

void hab_process_offer(struct hab_process *process, u64 key, u64 interval)
{
	WRITE_ONCE(process->key, key);
	hab_interval_offer(&process->interval, hab_owners_interval(process->owner), interval);
	if (unlikely(!READ_ONCE(process->is_active)))
		set_active(process, true);
}

/*
 * The quota of the process's key in the next window, with HAB_SHARE_SHIFT bits of fraction. The
 * throttler rounds a quota up, so one less.
 */
static u64 quota_of(const struct hab_process *process, struct hab_throttle *throttle)
{
	u64 key = READ_ONCE(process->key);
	u32 quota = key ? hab_throttle_quota(throttle, key) : 0;

	return (u64)(quota ? quota - 1 : 0) << HAB_SHARE_SHIFT;
}

/* After @process in the list, NULL: the first; processes_lock keeps those that are in it. */
static struct hab_process *next_active_locked(struct hab_process *process)
{
	struct list_head *next;

	lockdep_assert_held(&processes_lock);
	spin_lock(&active_lock);
	next = process ? process->active.next : active_processes.next;
	spin_unlock(&active_lock);
	return next == &active_processes ? NULL : list_entry(next, struct hab_process, active);
}

/* All samples are kept if @throttle is off: with the default interval. */
static void turn_locked(struct hab_process *process, struct hab_throttle *throttle, u64 quota,
			hab_show_heaps show)
{
	if (READ_ONCE(throttle->off))
		hab_interval_begin(&process->interval, NULL, ~0ull);
	else
		hab_interval_turn(&process->interval,
				  clamp(quota_of(process, throttle),
					hab_owners_share(process->owner), quota),
				  get_random_u32());
	show(&process->heaps);
}

void hab_processes_turn(struct hab_throttle *throttle, u64 quota, hab_show_heaps show)
{
	struct hab_process *process = NULL, *next;

	mutex_lock(&processes_lock);
	while ((process = next_active_locked(process))) {
		hab_owners_add_quota(process->owner, quota_of(process, throttle),
				     hab_interval_is_active(&process->interval));
		cond_resched();
	}
	hab_owners_turn(quota);
	for (process = next_active_locked(NULL); process; process = next) {
		next = next_active_locked(process);
		turn_locked(process, throttle, quota, show);
		if (!hab_interval_is_active(&process->interval))
			set_active(process, false);
		cond_resched();
	}
	mutex_unlock(&processes_lock);
}

void hab_processes_begin(u64 quota)
{
	struct hab_process *process;
	int bucket;

	mutex_lock(&processes_lock);
	hab_owners_begin(quota);
	hash_for_each(processes, bucket, process, place)
		hab_interval_begin(&process->interval, NULL, hab_owners_share(process->owner));
	mutex_unlock(&processes_lock);
}
