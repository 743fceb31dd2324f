/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The arguments of the tracepoints of trace system "hab". BPF programs read them by BTF, so fields
 * may be added and moved. They are no part of the device's ABI.
 */
#ifndef HAB_EVENTS_H
#define HAB_EVENTS_H

#include "uapi/hab.h"

/**
 * struct hab_event - tracepoints hab_refill, hab_tlab, hab_outside and hab_sample
 * @heap_id: of the heap
 * @bytes: of a refill: granted to the lowest buffer or straight to the caller; else, as the next
 *	four, as in struct hab_ioc_report. Each as far as the owner's budget goes
 *	(Documentation/abi.rst)
 * @chunk_bytes: of a refill: the part of @bytes that the caller got
 * @interval: of a sample
 * @object_bytes: 0 for a refill
 * @allocated_bytes: likewise
 * @restarts: of a refill, as in struct hab_ioc_refill; not checked
 * @waste_bytes: of a refill, likewise, plus free extents that became waste by it
 * @sample_id: set by hab_throttle_event() if it keeps the event
 * @window: likewise: the throttler's window that decided, see struct hab_window_event; 0: the
 *	probability is final
 * @candidate: likewise: number of the event among the window's candidates, from 1
 * @slot: likewise: below @quota. The event replaces an earlier one with the same window and slot,
 *	see HAB_REPLACES()
 * @quota: likewise: how many events the window may keep
 * @window_ms: likewise: nominal length of the window
 * @parts: as in struct hab_ioc_report; 1 for a refill
 * @cpu: where it happened
 * @domain: id of the refilled buffer's domain
 * @level: of the refilled buffer, 0 if the chunk is straight from the heap
 * @kind: enum hab_event_kind
 * @frames: @nr_frames return addresses, leaf first, as the thread sent them with its report; valid
 *	during the event
 * @nr_frames: 0: no stack came with the report
 * @next_is_kept: set by hab_throttle_event(), see struct hab_info
 * @heap_name: as in struct hab_ioc_create
 * @tag: as in struct hab_ioc_report
 */
struct hab_event {
	__u64 heap_id;
	__u64 bytes;
	__u64 chunk_bytes;
	__u64 interval;
	__u64 object_bytes;
	__u64 allocated_bytes;
	__u64 restarts;
	__u64 waste_bytes;
	__u64 sample_id;
	__u64 window;
	__u64 candidate;
	__u32 slot;
	__u32 quota;
	__u32 window_ms;
	__u32 parts;
	__u32 cpu;
	__u32 domain;
	__u32 level;
	__u32 kind;
	const __u64 *frames;
	__u32 nr_frames;
	__u32 next_is_kept;
	char heap_name[HAB_NAME_LEN];
	char tag[HAB_TAG_LEN];
};

/**
 * struct hab_refills_event - refills of a process: tracepoint hab_refills
 * @pid: of the process, in the first PID namespace
 * @reserved: 0
 * @refills: how many; not 0. The tracepoint is for exact totals at a bounded cost, so it fires for
 *	the refills of up to HAB_REFILLS_MS (module/processes.h) at once
 * @bytes: this and the next two: sums over them, each as in struct hab_event
 * @restarts: saturates, as the next one
 * @waste_bytes: likewise
 */
struct hab_refills_event {
	__u32 pid;
	__u32 reserved;
	__u64 refills;
	__u64 bytes;
	__u64 restarts;
	__u64 waste_bytes;
};

/**
 * struct hab_window_event - a window with kept events is over: tracepoint hab_window
 * @window: as in its events
 * @candidates: number of its candidates. The last event in each slot is the sample. It was kept
 *	with the probability that hab_throttle_event() returned, times quota / candidates if that is
 *	below 1
 * @quota: as in its events
 * @reserved: 0
 */
struct hab_window_event {
	__u64 window;
	__u64 candidates;
	__u32 quota;
	__u32 reserved;
};

/**
 * struct hab_stack_event - the stack of a kept sample, tracepoint hab_stack
 * @sample_id: of the sample
 * @nr_frames: valid entries of @frames
 * @reserved: 0
 * @frames: return addresses, leaf first, as the thread sent them
 */
struct hab_stack_event {
	__u64 sample_id;
	__u32 nr_frames;
	__u32 reserved;
	__u64 frames[HAB_STACK_DEPTH];
};

#endif /* HAB_EVENTS_H */
