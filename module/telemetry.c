// SPDX-License-Identifier: GPL-2.0-only
/*
 * Exact totals, tracepoints, and the machine-wide throttlers with their timer.
 *
 * No event waits for a rotation: a work item rotates the windows while events occur, and stops
 * after some time without events. The first event after that starts it again, in any context in
 * which BPF programs may call the kfunc, so it uses irq_work.
 */
#include <linux/capability.h>
#include <linux/cgroup.h>
#include <linux/irq_work.h>
#include <linux/jiffies.h>
#include <linux/percpu.h>
#include <linux/random.h>
#include <linux/spinlock.h>
#include <linux/string.h>
#include <linux/workqueue.h>

#include "wire/interval.h"
#include "core/throttle/throttle.h"
#include "module/heap.h"
#include "module/processes.h"
#include "module/telemetry.h"
#include "module/throttlers.h"
#include "module/trace.h"
#include "module/owners.h"

/* After so many seconds without an event the windows no longer rotate. */
#define QUIET_SECONDS 10

struct totals {
	u64 refills;
	u64 bytes;
};

static DEFINE_PER_CPU(struct totals, totals);
static DEFINE_SPINLOCK(throttle_lock);	/* rotations and rate changes */
static struct hab_throttle_shape shape; /* under throttle_lock */
static u32 window_ms;
static u32 share_by;
static unsigned int quiet_windows;  /* this and the next under throttle_lock */
static unsigned long next_rotation; /* in jiffies */
static bool rotating;
static bool starting;		     /* windows had stopped: the next rotation is @first_rotation */
static unsigned long first_rotation; /* in jiffies */
static atomic64_t last_sample_id = ATOMIC64_INIT(0);

static void rotate_windows(struct work_struct *work);
static DECLARE_DELAYED_WORK(rotate_work, rotate_windows);
static void start_rotating(struct irq_work *work);
static DEFINE_IRQ_WORK(start_work, start_rotating);

static unsigned long window_jiffies(void)
{
	return msecs_to_jiffies(READ_ONCE(window_ms));
}

/* Unique over kinds, shares and time, never 0. */
static u64 window_id(u32 kind, u32 share, u64 number)
{
	BUILD_BUG_ON(HAB_SHARE_COMMON >= 1 << 12 || HAB_EVENT_KINDS > 1 << 4);
	return number << 16 | kind << 12 | share;
}

static void report_window(void *context, const struct hab_window_end *end)
{
	struct hab_window_event event = {
		.window = window_id((uintptr_t)context, end->share, end->number),
		.candidates = end->candidates,
		.quota = end->quota,
	};

	preempt_disable();
	trace_hab_window(&event);
	preempt_enable();
}

static void start_timetable(u32 ms)
{
	WRITE_ONCE(window_ms, ms);
	next_rotation = jiffies + window_jiffies();
	quiet_windows = 0;
	WRITE_ONCE(starting, false);
}

/*
 * The number of rotations that are due, at least 1; sets the time of the next one. Rotations are a
 * window apart from the time they were due, and not from the time they ran: else a busy machine
 * would have too few of them in a second and keep too few events. The quota of missed windows is
 * carried over like that of empty ones, for one second at most.
 */
static u32 due_rotations(void)
{
	unsigned long now = jiffies, window = window_jiffies();
	u32 due = 1;

	for (next_rotation += window; time_before_eq(next_rotation, now); next_rotation += window) {
		if (due * window >= HZ) {
			next_rotation = now + window;
			break;
		}
		due++;
	}
	return due;
}

/* The rate and the windows of a second change together. */
static u64 window_quota_locked(void)
{
	lockdep_assert_held(&throttle_lock);
	return div_u64((u64)shape.rate << HAB_SHARE_SHIFT, shape.windows);
}

static void rotate_windows(struct work_struct *work)
{
	unsigned long wait;
	u64 measured = 0, quota;
	bool go_on;
	u32 due;

	spin_lock(&throttle_lock);
	/* Pairs with the release in start_rotating(). */
	if (xchg(&starting, false)) {
		quiet_windows = 0;
		next_rotation = READ_ONCE(first_rotation);
	}
	for (due = due_rotations(); due; due--)
		measured += hab_throttlers_rotate(report_window);
	wait = next_rotation - jiffies;
	quiet_windows = measured ? 0 : quiet_windows + 1;
	go_on = quiet_windows * (u64)window_ms <= QUIET_SECONDS * HAB_SECOND_MS;
	/*
	 * An event between the rotation and this store finds @rotating true and counts in the
	 * window; the next event starts the timer.
	 */
	WRITE_ONCE(rotating, go_on);
	quota = window_quota_locked();
	spin_unlock(&throttle_lock);
	if (hab_throttlers_of(HAB_EVENT_SAMPLE))
		hab_processes_turn(hab_throttlers_of(HAB_EVENT_SAMPLE), quota,
				   hab_dev_heaps_show_process);
	if (go_on)
		queue_delayed_work(system_highpri_wq, &rotate_work, (long)wait > 0 ? wait : 0);
}

static void start_rotating(struct irq_work *work)
{
	/* This may interrupt a rate change on this CPU, which holds the lock. */
	WRITE_ONCE(first_rotation, jiffies + window_jiffies());
	smp_store_release(&starting, true); /* pairs with the exchange in rotate_windows() */
	queue_delayed_work(system_highpri_wq, &rotate_work, window_jiffies());
}

/* Key of the share in which an event of the current process counts, never 0. */
static u64 current_key(void)
{
	u64 group = hab_owners_current();

#ifdef CONFIG_CGROUPS
	if (READ_ONCE(share_by) == HAB_SHARE_BY_CGROUP) {
		rcu_read_lock();
		/* Cgroups whose ids end with the same 40 bits are one group. */
		group = cgroup_id(task_dfl_cgroup(current));
		rcu_read_unlock();
	}
#endif
	return HAB_SHARE_KEY(group, (u32)current->tgid + 1);
}

static void go_on_rotating(void)
{
	if (!READ_ONCE(rotating) && !xchg(&rotating, true))
		irq_work_queue(&start_work);
}

void hab_telemetry_sample(struct hab_process *process, u64 interval)
{
	hab_process_offer(process, current_key(), interval);
	go_on_rotating();
}

u64 hab_telemetry_offer(struct hab_event *event)
{
	u32 kind = min_t(u32, event->kind, HAB_EVENT_KINDS - 1);
	struct hab_throttle *throttle = hab_throttlers_of(kind);
	struct hab_kept kept;
	bool keep;

	if (!throttle)
		return 0;
	keep = hab_throttle_offer(throttle, current_key(), &kept);
	go_on_rotating();
	event->next_is_kept = kept.next;
	if (!keep)
		return 0;
	/* All parts of an event have one sample id, for one stack. */
	if (!event->sample_id)
		event->sample_id = atomic64_inc_return(&last_sample_id);
	/* An earlier part may have set the window before the throttler was switched off. */
	event->window = kept.number ? window_id(kind, kept.share, kept.number) : 0;
	event->candidate = kept.place.candidate;
	event->slot = kept.place.slot;
	event->quota = kept.quota;
	event->window_ms = READ_ONCE(window_ms);
	return kept.probability;
}

/* A function of its own, so that the event is not cleared if there are no listeners. */
static noinline void report_refill(u64 heap_id, const char *name, u64 counted_bytes,
				   struct hab_ioc_refill *refill, u64 dropped_bytes)
{
	struct hab_event event = {
		.heap_id = heap_id,
		.bytes = counted_bytes,
		.chunk_bytes = min(refill->chunk_bytes, counted_bytes),
		.restarts = refill->restarts,
		.waste_bytes = hab_add_saturated(refill->waste_bytes, dropped_bytes),
		.cpu = refill->cpu,
		.domain = refill->domain,
		.level = refill->level,
		.parts = 1,
	};

	memcpy(event.heap_name, name, sizeof(event.heap_name));
	trace_hab_refill(&event);
	refill->sample_id = event.sample_id;
}

static void fire_refills(struct hab_refills_event *sum)
{
	preempt_disable();
	trace_hab_refills(sum);
	preempt_enable();
}

void hab_telemetry_end_heap(struct hab_process *process)
{
	hab_process_take_refills(process, fire_refills);
}

void hab_telemetry_refill(struct hab_process *process, u64 heap_id, const char *name,
			  u64 counted_bytes, struct hab_ioc_refill *refill, u64 dropped_bytes)
{
	this_cpu_inc(totals.refills);
	/* Preemption is off and interrupts do not count, so the total is this caller's. */
	__this_cpu_write(totals.bytes,
			 hab_add_saturated(__this_cpu_read(totals.bytes), counted_bytes));
	if (trace_hab_refills_enabled())
		hab_process_refill(process, counted_bytes, refill->restarts,
				   hab_add_saturated(refill->waste_bytes, dropped_bytes),
				   fire_refills);
	if (trace_hab_refill_enabled())
		report_refill(heap_id, name, counted_bytes, refill, dropped_bytes);
}

void hab_telemetry_heap(u64 heap_id, const char *name)
{
	struct hab_event event = { .heap_id = heap_id };

	if (!trace_hab_heap_enabled())
		return;
	memcpy(event.heap_name, name, sizeof(event.heap_name));
	preempt_disable();
	trace_hab_heap(&event);
	preempt_enable();
}

void hab_telemetry_stack(struct hab_stack_event *event)
{
	preempt_disable();
	trace_hab_stack(event);
	preempt_enable();
}

void hab_telemetry_totals(u64 *refills, u64 *bytes)
{
	int cpu;

	if (perfmon_capable())
		hab_processes_take_refills(fire_refills);
	*refills = 0;
	*bytes = 0;
	for_each_possible_cpu(cpu) {
		*refills += READ_ONCE(per_cpu(totals, cpu).refills);
		*bytes = hab_add_saturated(*bytes, READ_ONCE(per_cpu(totals, cpu).bytes));
	}
}

void hab_telemetry_rate(u32 *rate, u32 *period_ms)
{
	spin_lock(&throttle_lock);
	*rate = shape.rate;
	*period_ms = shape.period_ms;
	spin_unlock(&throttle_lock);
}

int hab_telemetry_set_rate(u32 rate, u32 period_ms)
{
	u64 quota;

	if (rate > HAB_RATE_OFF || period_ms < HAB_SECOND_MS || period_ms > HAB_DAY_MS)
		return -EINVAL;
	spin_lock(&throttle_lock);
	shape = hab_throttle_shape(rate, period_ms);
	hab_throttlers_set_shape(&shape, report_window);
	start_timetable(hab_shape_window_ms(&shape));
	quota = window_quota_locked();
	spin_unlock(&throttle_lock);
	hab_processes_begin(quota);
	hab_dev_heaps_show_sampling();
	/* The current window is new: its rotation is one window from now. */
	if (READ_ONCE(rotating))
		mod_delayed_work(system_highpri_wq, &rotate_work, window_jiffies());
	return 0;
}

u32 hab_telemetry_share_by(void)
{
	return READ_ONCE(share_by);
}

int hab_telemetry_set_share_by(u32 by)
{
	if (by == HAB_SHARE_BY_CGROUP && !IS_ENABLED(CONFIG_CGROUPS))
		return -EOPNOTSUPP;
	/* Shares of the old kind of group get no more events, and expire. */
	WRITE_ONCE(share_by, by);
	return 0;
}

u64 hab_telemetry_sampled(void)
{
	u64 sum = 0;
	u32 kind;

	for (kind = 0; kind < HAB_EVENT_KINDS; kind++) {
		if (hab_throttlers_of(kind))
			sum += hab_counter_read(&hab_throttlers_of(kind)->sampled);
	}
	return sum;
}

u64 hab_telemetry_throttled(void)
{
	u64 sum = 0;
	u32 kind;

	for (kind = 0; kind < HAB_EVENT_KINDS; kind++) {
		if (hab_throttlers_of(kind))
			sum += hab_throttle_throttled(hab_throttlers_of(kind));
	}
	return sum;
}

int hab_telemetry_init(void)
{
	return hab_telemetry_set_rate(hab_rate_default(num_online_cpus()), HAB_SECOND_MS);
}

void hab_telemetry_exit(void)
{
	/*
	 * The device is gone and no BPF program holds the module, so nothing offers events. A
	 * queued irq_work may start the work once more, and the work queues itself: so it is
	 * cancelled last.
	 */
	irq_work_sync(&start_work);
	cancel_delayed_work_sync(&rotate_work);
	hab_throttlers_exit();
}
