/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The tracepoints of trace system "hab". Each has one argument, a struct of module/events.h, so
 * that BPF programs can read it by name; ftrace and perf show the fields of the entry.
 */
/* clang-format off */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM hab

#if !defined(HAB_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define HAB_TRACE_H

#include <linux/tracepoint.h>

#include "module/events.h"

#ifndef HAB_TRACE_LISTENERS
#define HAB_TRACE_LISTENERS
/* In listeners.c: the first listener was attached, the last one was detached. */
int hab_listeners_add_refill(void);
void hab_listeners_remove_refill(void);
int hab_listeners_add_tlab(void);
void hab_listeners_remove_tlab(void);
int hab_listeners_add_outside(void);
void hab_listeners_remove_outside(void);
int hab_listeners_add_sample(void);
void hab_listeners_remove_sample(void);
#endif

/* A lowest-level buffer, or the caller itself, got memory. */
TRACE_EVENT_FN(hab_refill,
	TP_PROTO(struct hab_event *event),
	TP_ARGS(event),
	TP_STRUCT__entry(
		__field(u64, heap_id)
		__field(u64, bytes)
		__field(u64, chunk_bytes)
		__field(u32, domain)
		__field(u32, level)
		__string(heap_name, event->heap_name)
	),
	TP_fast_assign(
		__entry->heap_id = event->heap_id;
		__entry->bytes = event->bytes;
		__entry->chunk_bytes = event->chunk_bytes;
		__entry->domain = event->domain;
		__entry->level = event->level;
		memcpy(__get_str(heap_name), event->heap_name, strlen(event->heap_name) + 1);
	),
	TP_printk("heap=%llu name=%s bytes=%llu chunk=%llu domain=%u level=%u",
		  __entry->heap_id, __get_str(heap_name), __entry->bytes,
		  __entry->chunk_bytes, __entry->domain, __entry->level),
	hab_listeners_add_refill, hab_listeners_remove_refill
);

/* The refills of a process since the last of these events, for exact totals. */
TRACE_EVENT(hab_refills,
	TP_PROTO(struct hab_refills_event *event),
	TP_ARGS(event),
	TP_STRUCT__entry(
		__field(u32, pid)
		__field(u64, refills)
		__field(u64, bytes)
		__field(u64, restarts)
		__field(u64, waste_bytes)
	),
	TP_fast_assign(
		__entry->pid = event->pid;
		__entry->refills = event->refills;
		__entry->bytes = event->bytes;
		__entry->restarts = event->restarts;
		__entry->waste_bytes = event->waste_bytes;
	),
	TP_printk("pid=%u refills=%llu bytes=%llu restarts=%llu waste=%llu",
		  __entry->pid, __entry->refills, __entry->bytes, __entry->restarts,
		  __entry->waste_bytes)
);

/* What a program reports of its allocations, while there are listeners. */
DECLARE_EVENT_CLASS(hab_report,
	TP_PROTO(struct hab_event *event),
	TP_ARGS(event),
	TP_STRUCT__entry(
		__field(u64, heap_id)
		__field(u64, bytes)
		__field(u64, chunk_bytes)
		__field(u64, object_bytes)
		__field(u64, allocated_bytes)
		__string(heap_name, event->heap_name)
		__string(tag, event->tag)
	),
	TP_fast_assign(
		__entry->heap_id = event->heap_id;
		__entry->bytes = event->bytes;
		__entry->chunk_bytes = event->chunk_bytes;
		__entry->object_bytes = event->object_bytes;
		__entry->allocated_bytes = event->allocated_bytes;
		memcpy(__get_str(heap_name), event->heap_name, strlen(event->heap_name) + 1);
		memcpy(__get_str(tag), event->tag, strlen(event->tag) + 1);
	),
	TP_printk("heap=%llu name=%s bytes=%llu chunk=%llu object=%llu allocated=%llu tag=%s",
		  __entry->heap_id, __get_str(heap_name), __entry->bytes, __entry->chunk_bytes,
		  __entry->object_bytes, __entry->allocated_bytes, __get_str(tag))
);

/* An object was put into a new TLAB. */
DEFINE_EVENT_FN(hab_report, hab_tlab,
	TP_PROTO(struct hab_event *event), TP_ARGS(event),
	hab_listeners_add_tlab, hab_listeners_remove_tlab);

/* An object got a chunk of its own. */
DEFINE_EVENT_FN(hab_report, hab_outside,
	TP_PROTO(struct hab_event *event), TP_ARGS(event),
	hab_listeners_add_outside, hab_listeners_remove_outside);

/* A thread has allocated about the sampling interval. */
DEFINE_EVENT_FN(hab_report, hab_sample,
	TP_PROTO(struct hab_event *event), TP_ARGS(event),
	hab_listeners_add_sample, hab_listeners_remove_sample);

/* A heap was made; of the event only @heap_id and @heap_name are set. */
TRACE_EVENT(hab_heap,
	TP_PROTO(struct hab_event *event),
	TP_ARGS(event),
	TP_STRUCT__entry(
		__field(u64, heap_id)
		__string(heap_name, event->heap_name)
	),
	TP_fast_assign(
		__entry->heap_id = event->heap_id;
		memcpy(__get_str(heap_name), event->heap_name, strlen(event->heap_name) + 1);
	),
	TP_printk("heap=%llu name=%s", __entry->heap_id, __get_str(heap_name))
);

/* The stack of a kept sample, sent by the thread that caused it. */
TRACE_EVENT(hab_stack,
	TP_PROTO(struct hab_stack_event *event),
	TP_ARGS(event),
	TP_STRUCT__entry(
		__field(u64, sample_id)
		__field(u32, nr_frames)
	),
	TP_fast_assign(
		__entry->sample_id = event->sample_id;
		__entry->nr_frames = event->nr_frames;
	),
	TP_printk("sample=%llu frames=%u", __entry->sample_id, __entry->nr_frames)
);

/* A window of the throttler with kept events is over. */
TRACE_EVENT(hab_window,
	TP_PROTO(struct hab_window_event *event),
	TP_ARGS(event),
	TP_STRUCT__entry(
		__field(u64, window)
		__field(u64, candidates)
		__field(u32, quota)
	),
	TP_fast_assign(
		__entry->window = event->window;
		__entry->candidates = event->candidates;
		__entry->quota = event->quota;
	),
	TP_printk("window=%llu candidates=%llu quota=%u",
		  __entry->window, __entry->candidates, __entry->quota)
);

#endif /* HAB_TRACE_H */

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH module
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE trace
#include <trace/define_trace.h>
