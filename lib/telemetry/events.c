// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Reporting events, the tag of the type that is allocated, and stacks.
 *
 * Only slow paths read the tag, so setting it is its whole cost.
 *
 * Most code is built without frame pointers, so the kernel cannot walk its stacks. The thread can,
 * by the unwind tables of every x86-64 object. It does so only for events that the throttler has
 * kept, so the sampling rate bounds the cost, and not the rate of allocation.
 */
#include <string.h>
#include <unwind.h>

#include "lib/telemetry/events.h"

const uint32_t hab_events_no_listeners;
const uint64_t hab_events_interval = HAB_SAMPLING_INTERVAL_DEFAULT;

static __thread const char *current_tag __attribute__((tls_model("initial-exec")));

const char *hab_set_tag(const char *tag)
{
	const char *before = current_tag;

	current_tag = tag;
	return before;
}

/* Cut to the length that fits; characters that the kernel would refuse become '?'. */
static void copy_tag(char *to, const char *from)
{
	size_t i;

	for (i = 0; from && from[i] && i + 1 < HAB_TAG_LEN; i++)
		to[i] = from[i] < ' ' || from[i] > '~' ? '?' : from[i];
}

/* As JFR: an object outside of TLABs counts as often as the TLABs that would have held it. */
static uint32_t parts_of(const struct hab_thread *thread, uint32_t kind, uint64_t bytes)
{
	uint64_t parts;

	if (kind != HAB_EVENT_OUTSIDE || !thread->tlab_bytes)
		return 1;
	parts = (bytes + thread->tlab_bytes - 1) / thread->tlab_bytes;
	return parts < HAB_PARTS_MAX ? parts : HAB_PARTS_MAX;
}

struct walk {
	uintptr_t entry;
	uint64_t frames[HAB_STACK_DEPTH];
	uint32_t nr;
};

static _Unwind_Reason_Code add_frame(struct _Unwind_Context *context, void *argument)
{
	struct walk *walk = argument;

	/* A frame whose stack pointer is below the entry's is the library's. */
	if (_Unwind_GetCFA(context) < walk->entry)
		return _URC_NO_REASON;
	if (walk->nr == HAB_STACK_DEPTH)
		return _URC_END_OF_STACK;
	walk->frames[walk->nr] = _Unwind_GetIP(context);
	if (walk->frames[walk->nr])
		walk->nr++;
	return _URC_NO_REASON;
}

void hab_event_send_stack(struct hab_thread *thread, uint64_t sample_id)
{
	struct hab_heap *heap = thread->heap;
	struct walk walk = { .entry = thread->entry };
	struct hab_ioc_stack stack = { .size = sizeof(stack), .sample_id = sample_id };

	if (!heap->backend->stack)
		return;
	_Unwind_Backtrace(add_frame, &walk);
	if (!walk.nr)
		return;
	stack.nr_frames = walk.nr;
	stack.frames = (uintptr_t)walk.frames;
	heap->backend->stack(heap, &stack);
}

void hab_event_report(struct hab_thread *thread, uint32_t kind, uint64_t bytes,
		      uint64_t chunk_bytes, uint64_t object_bytes)
{
	struct hab_heap *heap = thread->heap;
	struct hab_ioc_report report = {
		.size = sizeof(report),
		.kind = kind,
		.bytes = bytes,
		.chunk_bytes = chunk_bytes,
		.object_bytes = object_bytes,
		.allocated_bytes = thread->counters.allocated_bytes,
		.parts = parts_of(thread, kind, bytes),
	};

	if (thread->end)
		report.allocated_bytes += hab_thread_top(thread) - thread->start;
	copy_tag(report.tag, current_tag);
	if (hab_usdt_listeners() & HAB_LISTENER(kind))
		hab_usdt_report(heap, &report);
	if (!(__atomic_load_n(heap->listeners, __ATOMIC_RELAXED) & HAB_LISTENER(kind)))
		return;
	/* A failure costs the listeners one event; the allocation succeeds. */
	if (!heap->backend->report(heap, &report) && report.sample_id)
		hab_event_send_stack(thread, report.sample_id);
}
