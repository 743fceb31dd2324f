// SPDX-License-Identifier: GPL-2.0-only
/*
 * Exact totals, tracepoints, and the machine-wide throttlers with their clock.
 *
 * The hard case is the throttlers' clock. Windows turn in a work item while
 * events flow, so that no event pays for it, and the work stops by itself once
 * the machine has been quiet for a while. The first event after that has to start
 * it again from wherever BPF programs may call the kfunc, so it goes through
 * irq_work, which is safe in every context.
 */
#include <linux/cgroup.h>
#include <linux/irq_work.h>
#include <linux/jiffies.h>
#include <linux/percpu.h>
#include <linux/random.h>
#include <linux/spinlock.h>
#include <linux/string.h>
#include <linux/workqueue.h>

#include "core/throttle/throttle.h"
#include "module/telemetry.h"
#include "module/trace.h"

/* After so many seconds without an event the windows stop turning. */
#define QUIET_SECONDS 10

struct totals {
	u64 refills;
	u64 bytes;
};

static DEFINE_PER_CPU(struct totals, totals);
static struct hab_throttle throttles[HAB_EVENT_KINDS]; /* all of the same rate */
static DEFINE_SPINLOCK(throttle_lock);		       /* turns and rate changes */
static u32 window_ms;
static u32 share_by;
static unsigned int quiet_windows; /* this and the next under throttle_lock */
static unsigned long next_turn;	   /* in jiffies */
static bool turning;
static bool starting;		 /* windows had stopped: the next turn is @first_turn's */
static unsigned long first_turn; /* in jiffies */
static atomic64_t last_sample_id = ATOMIC64_INIT(0);

static void turn_window(struct work_struct *work);
static DECLARE_DELAYED_WORK(turn_work, turn_window);
static void start_turning(struct irq_work *work);
static DEFINE_IRQ_WORK(start_work, start_turning);

static unsigned long window_jiffies(void)
{
	return msecs_to_jiffies(READ_ONCE(window_ms));
}

/* Unique over kinds, shares and time, and never 0. */
static u64 window_id(u32 kind, u32 share, u64 number)
{
	BUILD_BUG_ON(HAB_SHARE_COMMON >= 1 << 12 || HAB_EVENT_KINDS > 1 << 4);
	return number << 16 | kind << 12 | share;
}

static void tell_window(void *context, const struct hab_window_end *end)
{
	struct hab_throttle *throttle = context;
	struct hab_window_event event = {
		.window = window_id(throttle - throttles, end->share, end->number),
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
	next_turn = jiffies + window_jiffies();
	quiet_windows = 0;
	WRITE_ONCE(starting, false);
}

/*
 * How many turns are due, at least 1; sets when the next one is. Turns are a window apart
 * from when they should be, not from when they were, or a busy machine would turn too few
 * in a second and keep too few events. The quota of windows that were missed are carried
 * on like those of empty ones, for a second at most.
 */
static u32 due_turns(void)
{
	unsigned long now = jiffies, window = window_jiffies();
	u32 due = 1;

	for (next_turn += window; time_before_eq(next_turn, now); next_turn += window) {
		if (due * window >= HZ) {
			next_turn = now + window;
			break;
		}
		due++;
	}
	return due;
}

static u64 turn_all(void)
{
	u64 measured = 0;
	u32 kind;

	for (kind = 0; kind < HAB_EVENT_KINDS; kind++) {
		/* Of a kind that was never raised there is nothing to turn. */
		if (!hab_counter_read(&throttles[kind].offered))
			continue;
		measured += hab_throttle_rotate(&throttles[kind], get_random_u64(), tell_window,
						&throttles[kind]);
	}
	return measured;
}

static void turn_window(struct work_struct *work)
{
	unsigned long wait;
	u64 measured = 0;
	bool go_on;
	u32 due;

	spin_lock(&throttle_lock);
	/* Pairs with the release in start_turning(). */
	if (xchg(&starting, false)) {
		quiet_windows = 0;
		next_turn = READ_ONCE(first_turn);
	}
	for (due = due_turns(); due; due--)
		measured += turn_all();
	wait = next_turn - jiffies;
	quiet_windows = measured ? 0 : quiet_windows + 1;
	go_on = quiet_windows * (u64)window_ms <= QUIET_SECONDS * HAB_SECOND_MS;
	/*
	 * An event that comes between the turn and this store sees turning as
	 * true and is counted in the window; the next one starts the clock.
	 */
	WRITE_ONCE(turning, go_on);
	spin_unlock(&throttle_lock);
	if (go_on)
		queue_delayed_work(system_highpri_wq, &turn_work, (long)wait > 0 ? wait : 0);
}

static void start_turning(struct irq_work *work)
{
	/* The lock cannot be taken here: the rate may just be set, on this CPU. */
	WRITE_ONCE(first_turn, jiffies + window_jiffies());
	smp_store_release(&starting, true); /* pairs with the exchange in turn_window() */
	queue_delayed_work(system_highpri_wq, &turn_work, window_jiffies());
}

/* Whose share an event counts in, never 0. */
static u64 current_key(void)
{
	u64 key = current->tgid;

#ifdef CONFIG_CGROUPS
	if (READ_ONCE(share_by) == HAB_SHARE_BY_CGROUP) {
		rcu_read_lock();
		key = cgroup_id(task_dfl_cgroup(current));
		rcu_read_unlock();
	}
#endif
	return key + 1;
}

u64 hab_telemetry_offer(struct hab_event *event)
{
	u32 kind = min_t(u32, event->kind, HAB_EVENT_KINDS - 1);
	struct hab_kept kept;
	bool keep;

	keep = hab_throttle_offer(&throttles[kind], current_key(), &kept);
	if (!READ_ONCE(turning) && !xchg(&turning, true))
		irq_work_queue(&start_work);
	if (!keep)
		return 0;
	/* Parts of an event are one sample id, for one stack. */
	if (!event->sample_id)
		event->sample_id = atomic64_inc_return(&last_sample_id);
	/* The part before may have been of a window, and the throttle off since. */
	event->window = kept.number ? window_id(kind, kept.share, kept.number) : 0;
	event->candidate = kept.place.candidate;
	event->slot = kept.place.slot;
	event->quota = kept.quota;
	event->window_ms = READ_ONCE(window_ms);
	return kept.probability;
}

/* Apart, so that the event is not cleared while nobody listens. */
static noinline void tell_refill(u64 heap_id, const char *name, struct hab_ioc_refill *refill,
				 u64 dropped_bytes)
{
	struct hab_event event = {
		.heap_id = heap_id,
		.bytes = refill->granted_bytes,
		.chunk_bytes = refill->chunk_bytes,
		.restarts = refill->restarts,
		.waste_bytes = refill->waste_bytes + dropped_bytes,
		.cpu = refill->cpu,
		.domain = refill->domain,
		.level = refill->level,
		.parts = 1,
	};

	memcpy(event.heap_name, name, sizeof(event.heap_name));
	trace_hab_refill(&event);
	refill->sample_id = event.sample_id;
}

void hab_telemetry_refill(u64 heap_id, const char *name, struct hab_ioc_refill *refill,
			  u64 dropped_bytes)
{
	this_cpu_inc(totals.refills);
	this_cpu_add(totals.bytes, refill->granted_bytes);
	if (trace_hab_refill_enabled())
		tell_refill(heap_id, name, refill, dropped_bytes);
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

	*refills = 0;
	*bytes = 0;
	for_each_possible_cpu(cpu) {
		*refills += READ_ONCE(per_cpu(totals, cpu).refills);
		*bytes += READ_ONCE(per_cpu(totals, cpu).bytes);
	}
}

void hab_telemetry_rate(u32 *rate, u32 *period_ms)
{
	spin_lock(&throttle_lock);
	*rate = throttles[0].shape.rate;
	*period_ms = throttles[0].shape.period_ms;
	spin_unlock(&throttle_lock);
}

int hab_telemetry_set_rate(u32 rate, u32 period_ms)
{
	int err = 0;
	u32 kind;

	spin_lock(&throttle_lock);
	for (kind = 0; kind < HAB_EVENT_KINDS && !err; kind++)
		err = hab_throttle_set_rate(&throttles[kind], rate, period_ms, tell_window,
					    &throttles[kind]);
	if (!err)
		start_timetable(hab_throttle_window_ms(&throttles[0]));
	spin_unlock(&throttle_lock);
	/* The window under way was cut short: its turn is one window from now. */
	if (!err && READ_ONCE(turning))
		mod_delayed_work(system_highpri_wq, &turn_work, window_jiffies());
	return err;
}

u32 hab_telemetry_share_by(void)
{
	return READ_ONCE(share_by);
}

int hab_telemetry_set_share_by(u32 by)
{
	if (by == HAB_SHARE_BY_CGROUP && !IS_ENABLED(CONFIG_CGROUPS))
		return -EOPNOTSUPP;
	/* Shares of the other kind of key get no more events, and age. */
	WRITE_ONCE(share_by, by);
	return 0;
}

u64 hab_telemetry_sampled(void)
{
	u64 sum = 0;
	u32 kind;

	for (kind = 0; kind < HAB_EVENT_KINDS; kind++)
		sum += hab_counter_read(&throttles[kind].sampled);
	return sum;
}

u64 hab_telemetry_throttled(void)
{
	u64 sum = 0;
	u32 kind;

	for (kind = 0; kind < HAB_EVENT_KINDS; kind++)
		sum += hab_throttle_throttled(&throttles[kind]);
	return sum;
}

int hab_telemetry_init(void)
{
	u32 kind;

	/* What is drawn from them must not be the same after each loading. */
	for (kind = 0; kind < HAB_EVENT_KINDS; kind++)
		throttles[kind].seeds[0] = get_random_u64();
	return hab_telemetry_set_rate(HAB_RATE_DEFAULT, HAB_SECOND_MS);
}

void hab_telemetry_exit(void)
{
	/*
	 * The device is gone and no BPF program holds the module, so nothing
	 * offers events. What was queued may start the work once more; the work
	 * queues itself, so it goes last.
	 */
	irq_work_sync(&start_work);
	cancel_delayed_work_sync(&turn_work);
}
