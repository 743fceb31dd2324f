// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Reporting events, the tag of the type that is allocated, and stacks.
 *
 * Only slow paths read the tag, so setting it is its whole cost.
 *
 * Most code is built without frame pointers, so the kernel cannot walk its stacks. The thread can,
 * by the unwind tables of every x86-64 binary. It does so only for events that the throttler has
 * kept, so the sampling rate bounds the cost, and not the rate of allocation.
 */
#include <string.h>

#include "lib/telemetry/heap_channel.h"
#include "lib/telemetry/events.h"
#include "inside/unwind.h"

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

void hab_event_send_stack(struct hab_thread *thread, uint64_t sample_id)
{
	struct hab_heap *heap = thread->heap;
	struct hab_ioc_stack stack = { .size = sizeof(stack), .sample_id = sample_id };
	uint64_t frames[HAB_STACK_DEPTH];

	if (!heap->backend->stack)
		return;
	stack.nr_frames = hab_unwind(thread->entry, frames, NULL, HAB_STACK_DEPTH, 0);
	if (!stack.nr_frames)
		return;
	stack.frames = (uintptr_t)frames;
	heap->backend->stack(heap, &stack);
}

void hab_event_report(struct hab_thread *thread, struct hab_ioc_report *report)
{
	struct hab_heap *heap = thread->heap;
	uint64_t frames[HAB_STACK_DEPTH];

	report->size = sizeof(*report);
	report->parts = parts_of(thread, report->kind, report->bytes);
	report->allocated_bytes = thread->counters.allocated_bytes;
	if (thread->end)
		report->allocated_bytes += hab_thread_top(thread) - thread->start;
	copy_tag(report->tag, current_tag);
	/* The module, or an open channel, has said that the next sample is kept: its stack goes
	 * along. */
	if (report->kind == HAB_EVENT_SAMPLE &&
	    __atomic_load_n(heap->next_is_kept, __ATOMIC_RELAXED)) {
		report->nr_frames = hab_unwind(thread->entry, frames, NULL, HAB_STACK_DEPTH,
					       hab_heap_channel_stack_end(heap, thread->entry));
		report->frames = (uintptr_t)frames;
	}
	if (!(__atomic_load_n(heap->listeners, __ATOMIC_RELAXED) & HAB_LISTENER(report->kind)))
		return;
	/* A failure costs the listeners one event; the allocation succeeds. */
	if (!heap->backend->report(heap, report) && report->sample_id && !report->nr_frames)
		hab_event_send_stack(thread, report->sample_id);
}
