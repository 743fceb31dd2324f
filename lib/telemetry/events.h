/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Reporting events of allocation, and sending the stacks of kept samples. Refills are not
 * reported here: the kernel counts them itself.
 */
#ifndef HAB_LIB_EVENTS_H
#define HAB_LIB_EVENTS_H

#include "inside/usdt.h"
#include "lib/thread.h"

/* true if events of @kind have listeners. For slow paths. */
static inline bool hab_event_has_listeners(const struct hab_heap *heap, uint32_t kind)
{
	return (__atomic_load_n(heap->listeners, __ATOMIC_RELAXED) & HAB_LISTENER(kind)) ||
	       (kind == HAB_EVENT_SAMPLE && hab_usdt_has_tracer());
}

/**
 * hab_event_report - report an allocation
 * @thread: the calling thread; its TLAB is in order and may be used
 * @report: its kind (HAB_EVENT_TLAB, HAB_EVENT_OUTSIDE or HAB_EVENT_SAMPLE), bytes, chunk_bytes,
 *	object_bytes, and the interval of a sample, as in struct hab_event; the rest is filled in
 *
 * If the event is kept as a sample the thread's stack is sent: with the report if that is known
 * before, else after it. Sources: JFR's jdk.ObjectAllocationInNewTLAB,
 * jdk.ObjectAllocationOutsideTLAB; JVMTI's SampledObjectAlloc.
 */
void hab_event_report(struct hab_thread *thread, struct hab_ioc_report *report);

/**
 * hab_event_send_stack - send the calling thread's stack for a sample that was just kept
 * @thread: the calling thread; frames below its @entry are the library's and left out
 * @sample_id: of the sample
 */
void hab_event_send_stack(struct hab_thread *thread, uint64_t sample_id);

#endif /* HAB_LIB_EVENTS_H */
