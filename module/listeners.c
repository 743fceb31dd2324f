// SPDX-License-Identifier: GPL-2.0-only
/*
 * Listeners of allocations. A new TLAB, an object outside of TLABs and a sample every so
 * many bytes happen in user space; telling the kernel costs an ioctl. So user
 * space is told whether it is worth it: a tracepoint's first listener sets a bit in every
 * heap's mapped control area, the last one clears it. The library looks at it where it is
 * slow anyway.
 *
 * The hard case is what user space says: a program may report what never happened. It is
 * believed as far as its own numbers go, and can crowd out nobody: the throttler divides
 * what it keeps among processes.
 */
#include <linux/limits.h>
#include <linux/preempt.h>
#include <linux/smp.h>
#include <linux/string.h>

#include "module/heap.h"
#include "module/heaps.h"
#include "module/listeners.h"
#include "module/names.h"
#include "module/trace.h"

static u32 listeners; /* written under the tracepoints' lock; bits HAB_LISTENER() */
static u64 interval = HAB_SAMPLING_INTERVAL_DEFAULT;

void hab_listeners_show(struct hab_dev_heap *heap)
{
	WRITE_ONCE(heap->info->listeners, READ_ONCE(listeners));
	WRITE_ONCE(heap->info->sampling_interval, READ_ONCE(interval));
}

static void show(struct hab_dev_heap *heap, unsigned int argument)
{
	hab_listeners_show(heap);
}

static int listen(u32 kind)
{
	WRITE_ONCE(listeners, listeners | HAB_LISTENER(kind));
	hab_dev_heaps_each(show, 0);
	return 0;
}

static void unlisten(u32 kind)
{
	WRITE_ONCE(listeners, listeners & ~HAB_LISTENER(kind));
	hab_dev_heaps_each(show, 0);
}

int hab_listeners_add_tlab(void)
{
	return listen(HAB_EVENT_TLAB);
}

void hab_listeners_remove_tlab(void)
{
	unlisten(HAB_EVENT_TLAB);
}

int hab_listeners_add_outside(void)
{
	return listen(HAB_EVENT_OUTSIDE);
}

void hab_listeners_remove_outside(void)
{
	unlisten(HAB_EVENT_OUTSIDE);
}

int hab_listeners_add_sample(void)
{
	return listen(HAB_EVENT_SAMPLE);
}

void hab_listeners_remove_sample(void)
{
	unlisten(HAB_EVENT_SAMPLE);
}

u64 hab_listeners_interval(void)
{
	return READ_ONCE(interval);
}

int hab_listeners_set_interval(u64 mean_bytes)
{
	if (mean_bytes > LLONG_MAX)
		return -EINVAL;
	WRITE_ONCE(interval, mean_bytes);
	hab_dev_heaps_each(show, 0);
	return 0;
}

static void tell(struct hab_event *event)
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

int hab_listeners_report(struct hab_dev_heap *heap, struct hab_ioc_report *report)
{
	u32 lowest = heap->books.nr_levels - 1;
	struct hab_event event;

	if (report->kind <= HAB_EVENT_REFILL || report->kind >= HAB_EVENT_KINDS || !report->bytes ||
	    !report->parts || report->parts > HAB_PARTS_MAX || report->reserved ||
	    !hab_name_ok(report->tag, sizeof(report->tag)))
		return -EINVAL;
	report->sample_id = 0;
	if (!(READ_ONCE(listeners) & HAB_LISTENER(report->kind)))
		return 0;
	memset(&event, 0, sizeof(event));
	event.heap_id = heap->id;
	event.bytes = report->bytes;
	event.chunk_bytes = report->chunk_bytes;
	event.object_bytes = report->object_bytes;
	event.allocated_bytes = report->allocated_bytes;
	event.level = lowest + 1;
	event.kind = report->kind;
	event.parts = report->parts;
	memcpy(event.heap_name, heap->name, sizeof(event.heap_name));
	memcpy(event.tag, report->tag, strlen(report->tag));
	/* As for refills: called preemptible, BPF programs would lose hits on 7.0 and later. */
	preempt_disable();
	event.cpu = smp_processor_id();
	event.domain = READ_ONCE(heap->domains[lowest * heap->books.nr_domains + event.cpu]);
	tell(&event);
	preempt_enable();
	report->sample_id = event.sample_id;
	return 0;
}
