// SPDX-License-Identifier: GPL-2.0-only
/*
 * Listeners, and the reports of programs.
 *
 * A new TLAB, an object outside of TLABs and a sample happen in user space, and a report of them
 * costs an ioctl. So a tracepoint's first listener sets a bit in every heap's mapped control area,
 * the last one clears it, and the library reads it on its slow paths.
 *
 * A program may report events that never happened. They count for its own process only: the
 * throttler divides the quota among processes.
 */
#include <linux/preempt.h>
#include <linux/smp.h>
#include <linux/string.h>

#include "module/heap.h"
#include "module/listeners.h"
#include "module/names.h"
#include "module/throttlers.h"

#define CREATE_TRACE_POINTS
#include "module/trace.h"
#include "module/owners.h"

static u32 listeners; /* bits HAB_LISTENER(); written under the tracepoints' lock */

static int add_listener(u32 kind)
{
	int err = hab_throttlers_add(kind);

	if (err)
		return err;
	WRITE_ONCE(listeners, listeners | HAB_LISTENER(kind));
	hab_dev_heaps_set_listeners(listeners);
	return 0;
}

static void remove_listener(u32 kind)
{
	WRITE_ONCE(listeners, listeners & ~HAB_LISTENER(kind));
	hab_dev_heaps_set_listeners(listeners);
}

/* Programs see no bit of it: the kernel knows each refill itself. */
int hab_listeners_add_refill(void)
{
	return hab_throttlers_add(HAB_EVENT_REFILL);
}

void hab_listeners_remove_refill(void)
{
}

int hab_listeners_add_tlab(void)
{
	return add_listener(HAB_EVENT_TLAB);
}

void hab_listeners_remove_tlab(void)
{
	remove_listener(HAB_EVENT_TLAB);
}

int hab_listeners_add_outside(void)
{
	return add_listener(HAB_EVENT_OUTSIDE);
}

void hab_listeners_remove_outside(void)
{
	remove_listener(HAB_EVENT_OUTSIDE);
}

int hab_listeners_add_sample(void)
{
	return add_listener(HAB_EVENT_SAMPLE);
}

void hab_listeners_remove_sample(void)
{
	remove_listener(HAB_EVENT_SAMPLE);
}

static void emit(struct hab_event *event)
{
	switch (event->kind) {
	case HAB_EVENT_TLAB:
		trace_hab_tlab(event);
		break;
	case HAB_EVENT_OUTSIDE:
		trace_hab_outside(event);
		break;
	case HAB_EVENT_SAMPLE:
		trace_hab_sample(event);
		break;
	}
}

static bool is_valid(const struct hab_ioc_report *report)
{
	return report->kind > HAB_EVENT_REFILL && report->kind < HAB_EVENT_KINDS && report->bytes &&
	       report->parts && report->parts <= HAB_PARTS_MAX &&
	       (report->chunk_bytes || report->kind != HAB_EVENT_SAMPLE) &&
	       report->nr_frames <= HAB_STACK_DEPTH && !report->reserved && !report->reserved2 &&
	       hab_name_ok(report->tag, sizeof(report->tag));
}

/*
 * What the event counts for, as far as the owner's budget goes. A sample stands for at most the sum
 * of its object's size and its interval.
 */
static void set_bytes(struct hab_event *event, struct hab_owner *owner,
		      const struct hab_ioc_report *report)
{
	u64 interval = report->kind == HAB_EVENT_SAMPLE ? report->interval : 0;
	u64 most = max(report->bytes, hab_add_saturated(report->chunk_bytes, interval));
	u64 counted = hab_owners_spend(owner, NULL, most);

	event->bytes = min(report->bytes, counted);
	/* A sample has an object, even if none of it counts. */
	event->chunk_bytes = max(min(report->chunk_bytes, counted), 1ull);
	event->interval = min3(interval, counted, HAB_SAMPLING_INTERVAL_MAX);
}

int hab_listeners_report(struct hab_dev_heap *heap, struct hab_ioc_report *report,
			 const u64 *frames, bool *is_offered, bool *next_is_kept)
{
	u32 lowest = heap->books.nr_levels - 1;
	struct hab_event event;

	if (!is_valid(report))
		return -EINVAL;
	report->sample_id = 0;
	*next_is_kept = false;
	*is_offered = READ_ONCE(listeners) & HAB_LISTENER(report->kind);
	if (!*is_offered)
		return 0;
	memset(&event, 0, sizeof(event));
	event.heap_id = heap->id;
	event.frames = frames;
	event.nr_frames = report->nr_frames;
	event.object_bytes = report->object_bytes;
	event.allocated_bytes = report->allocated_bytes;
	event.level = lowest + 1;
	event.kind = report->kind;
	event.parts = report->parts;
	memcpy(event.heap_name, heap->name, sizeof(event.heap_name));
	memcpy(event.tag, report->tag, strlen(report->tag));
	/* As for refills: while preemptible, BPF programs lose hits on 7.0 and later. */
	preempt_disable();
	set_bytes(&event, heap->owner, report);
	event.cpu = smp_processor_id();
	event.domain = READ_ONCE(heap->domains[lowest * heap->books.nr_domains + event.cpu]);
	emit(&event);
	preempt_enable();
	*next_is_kept = event.next_is_kept;
	report->sample_id = event.sample_id;
	return 0;
}
