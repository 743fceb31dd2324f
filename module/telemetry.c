// SPDX-License-Identifier: GPL-2.0-only
/*
 * Exact totals, tracepoints, and the machine-wide throttler with its clock.
 *
 * The hard case is the throttler's clock. Windows turn in a work item while
 * events flow, so that no event pays for it, and the work stops by itself once
 * the machine has been quiet for a while. The first event after that has to start
 * it again from wherever BPF programs may call the kfunc, so it goes through
 * irq_work, which is safe in every context.
 */
#include <linux/irq_work.h>
#include <linux/jiffies.h>
#include <linux/percpu.h>
#include <linux/random.h>
#include <linux/spinlock.h>
#include <linux/string.h>
#include <linux/workqueue.h>

#include "../core/throttle.h"
#include "telemetry.h"

#define CREATE_TRACE_POINTS
#include "trace.h"

/* After so many seconds without an event the windows stop turning. */
#define QUIET_SECONDS 10

struct totals {
	u64 refills;
	u64 bytes;
};

static DEFINE_PER_CPU(struct totals, totals);
static struct hab_throttle throttle;
static DEFINE_SPINLOCK(throttle_lock); /* turns and rate changes */
static unsigned int quiet_windows;
static bool turning;
static atomic64_t last_sample_id = ATOMIC64_INIT(0);

static void turn_window(struct work_struct *work);
static DECLARE_DELAYED_WORK(turn_work, turn_window);
static void start_turning(struct irq_work *work);
static DEFINE_IRQ_WORK(start_work, start_turning);

static unsigned long window_jiffies(void)
{
	return msecs_to_jiffies(hab_throttle_window_ms(&throttle));
}

static void turn_window(struct work_struct *work)
{
	bool go_on;

	spin_lock(&throttle_lock);
	if (hab_throttle_turn(&throttle, get_random_u64()))
		quiet_windows = 0;
	else
		quiet_windows++;
	go_on = quiet_windows <= QUIET_SECONDS * throttle.windows_per_second;
	/*
	 * An event that comes between the turn and this store sees turning as
	 * true and is counted in the window; the next one starts the clock.
	 */
	WRITE_ONCE(turning, go_on);
	spin_unlock(&throttle_lock);
	if (go_on)
		schedule_delayed_work(&turn_work, window_jiffies());
}

static void start_turning(struct irq_work *work)
{
	WRITE_ONCE(quiet_windows, 0);
	schedule_delayed_work(&turn_work, window_jiffies());
}

u64 hab_telemetry_offer(struct hab_event *event)
{
	u64 probability = hab_throttle_offer(&throttle);

	if (!READ_ONCE(turning) && !xchg(&turning, true))
		irq_work_queue(&start_work);
	if (probability)
		event->sample_id = atomic64_inc_return(&last_sample_id);
	return probability;
}

void hab_telemetry_refill(u64 heap_id, const char *name, struct hab_refill *refill)
{
	struct hab_event event;

	this_cpu_inc(totals.refills);
	this_cpu_add(totals.bytes, refill->granted_bytes);
	if (!trace_hab_refill_enabled())
		return;
	memset(&event, 0, sizeof(event));
	event.heap_id = heap_id;
	event.bytes = refill->granted_bytes;
	event.chunk_bytes = refill->chunk_bytes;
	event.cpu = refill->cpu;
	event.domain = refill->domain;
	event.level = refill->level;
	memcpy(event.heap_name, name, sizeof(event.heap_name));
	trace_hab_refill(&event);
	refill->sample_id = event.sample_id;
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

u32 hab_telemetry_rate(void)
{
	return READ_ONCE(throttle.rate);
}

int hab_telemetry_set_rate(u32 rate)
{
	int err;

	spin_lock(&throttle_lock);
	err = hab_throttle_set_rate(&throttle, rate);
	spin_unlock(&throttle_lock);
	/* The window under way was cut short: its turn is one window from now. */
	if (!err && READ_ONCE(turning))
		mod_delayed_work(system_wq, &turn_work, window_jiffies());
	return err;
}

u64 hab_telemetry_sampled(void)
{
	return hab_counter_read(&throttle.sampled);
}

u64 hab_telemetry_throttled(void)
{
	return hab_throttle_throttled(&throttle);
}

int hab_telemetry_init(void)
{
	return hab_throttle_set_rate(&throttle, HAB_RATE_DEFAULT);
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
