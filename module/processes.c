// SPDX-License-Identifier: GPL-2.0-only
/*
 * The table of processes that have heaps. All heaps of a process have one sampling interval, so the
 * number of its heaps does not change what it may keep. A heap that a child uses counts for the
 * process that made it.
 */
#include <linux/err.h>
#include <linux/mutex.h>
#include <linux/random.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/xarray.h>

#include "core/throttle/interval.h"
#include "core/throttle/throttle.h"
#include "module/processes.h"

/**
 * struct hab_process - a process that has heaps
 * @nr_heaps: under processes_lock
 * @pid: its key in the table
 * @key: of the share in which its last sample counted; 0: none so far
 * @interval: of its samples
 */
struct hab_process {
	unsigned int nr_heaps;
	pid_t pid;
	u64 key;
	struct hab_interval interval;
};

static DEFINE_MUTEX(processes_lock);
static DEFINE_XARRAY(processes); /* by pid in the first PID namespace */
/* Of a window, for each process that offered something in the last one; under processes_lock. */
static u64 fair_share = (u64)HAB_RATE_DEFAULT << HAB_SHARE_SHIFT;

static struct hab_process *find_process_locked(pid_t pid)
{
	struct hab_process *process = xa_load(&processes, pid);
	int err;

	lockdep_assert_held(&processes_lock);
	if (process)
		return process;
	process = kzalloc(sizeof(*process), GFP_KERNEL_ACCOUNT);
	if (!process)
		return ERR_PTR(-ENOMEM);
	process->pid = pid;
	hab_interval_begin(&process->interval, fair_share);
	err = xa_err(xa_store(&processes, pid, process, GFP_KERNEL_ACCOUNT));
	if (err) {
		kfree(process);
		return ERR_PTR(err);
	}
	return process;
}

struct hab_process *hab_processes_add_heap(void)
{
	struct hab_process *process;

	mutex_lock(&processes_lock);
	process = find_process_locked(current->tgid);
	if (!IS_ERR(process))
		process->nr_heaps++;
	mutex_unlock(&processes_lock);
	return process;
}

void hab_processes_remove_heap(struct hab_process *process)
{
	mutex_lock(&processes_lock);
	if (!--process->nr_heaps) {
		xa_erase(&processes, process->pid);
		kfree(process);
	}
	mutex_unlock(&processes_lock);
}

u64 hab_process_interval(const struct hab_process *process)
{
	return READ_ONCE(process->interval.mean);
}

void hab_process_offer(struct hab_process *process, u64 key)
{
	WRITE_ONCE(process->key, key);
	hab_interval_offer(&process->interval);
}

static void turn_locked(struct hab_process *process, struct hab_throttle *throttle)
{
	u64 key = READ_ONCE(process->key), share = 0;

	lockdep_assert_held(&processes_lock);
	if (READ_ONCE(throttle->off)) {
		hab_interval_begin(&process->interval, ~0ull);
		return;
	}
	if (key)
		share = (u64)hab_throttle_quota(throttle, key) << HAB_SHARE_SHIFT;
	hab_interval_turn(&process->interval, max(share, fair_share), get_random_u32());
}

void hab_processes_turn(struct hab_throttle *throttle)
{
	struct hab_process *process;
	unsigned long pid;
	u32 active = 0;

	mutex_lock(&processes_lock);
	xa_for_each(&processes, pid, process)
		active += !!hab_counter_read(&process->interval.offered);
	fair_share = div_u64(READ_ONCE(throttle->quota) << HAB_SHARE_SHIFT, max(active, 1u));
	xa_for_each(&processes, pid, process)
		turn_locked(process, throttle);
	mutex_unlock(&processes_lock);
}
