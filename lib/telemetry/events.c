// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Raising events, and the tag of the type that is allocated.
 *
 * The tag is looked at by slow paths only, so setting it is all that it costs.
 */
#include <string.h>

#include "lib/telemetry/events.h"
#include "lib/telemetry/stack.h"

const uint32_t hab_events_nobody;
const uint64_t hab_events_interval = HAB_SAMPLING_INTERVAL_DEFAULT;

static __thread const char *current_tag __attribute__((tls_model("initial-exec")));

const char *hab_set_tag(const char *tag)
{
	const char *before = current_tag;

	current_tag = tag;
	return before;
}

/* Cut to what fits, and with nothing in it that the kernel would refuse. */
static void copy_tag(char *to, const char *from)
{
	size_t i;

	for (i = 0; from && from[i] && i + 1 < HAB_TAG_LEN; i++)
		to[i] = from[i] < ' ' || from[i] > '~' ? '?' : from[i];
}

/* JFR tries an object outside of TLABs as often as TLABs would have been sampled for it. */
static uint32_t parts_of(const struct hab_thread *thread, uint32_t kind, uint64_t bytes)
{
	uint64_t parts;

	if (kind != HAB_EVENT_OUTSIDE || !thread->tlab_bytes)
		return 1;
	parts = (bytes + thread->tlab_bytes - 1) / thread->tlab_bytes;
	return parts < HAB_PARTS_MAX ? parts : HAB_PARTS_MAX;
}

void hab_events_raise(struct hab_thread *thread, uint32_t kind, uint64_t bytes,
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
	if (hab_usdt_wanted() & HAB_LISTENER(kind))
		hab_usdt_report(heap, &report);
	if (!(__atomic_load_n(heap->listeners, __ATOMIC_RELAXED) & HAB_LISTENER(kind)))
		return;
	/* Who listens sees less if it fails; the allocation does not. */
	if (!heap->backend->report(heap, &report) && report.sample_id)
		hab_stack_send(thread, report.sample_id);
}
