// SPDX-License-Identifier: GPL-2.0-only
/*
 * Follows the static probes of libhab (lib/telemetry/usdt.h) without the module: events of heaps
 * of the process backend.
 *
 * The throttler's choice is that of the module (core/throttle/window.h), with one window for all
 * processes: a probe's program cannot call the module, and shares need its timer and its table.
 * habd rotates the windows.
 */
#include <linux/bpf.h>
#include <linux/ptrace.h>
#include <stdbool.h>
#include <stddef.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
/* Four probes of at most 16 libraries. */
#define BPF_USDT_MAX_SPEC_CNT 64
#include <bpf/usdt.bpf.h>

#include "core/throttle/window.h"
#include "bpf/records.h"
#define HAB_BPF_PREEMPTIBLE
#include "bpf/totals.h"

/* Refills are events, too; else they are only counted. habd sets it before loading. */
const volatile bool follows_refills;

char LICENSE[] SEC("license") = "GPL";

/* habd writes a window before it becomes the current one; then only @measured changes. */
volatile struct hab_probe_window windows[HAB_PROBE_WINDOWS];
volatile __u32 current;
__u64 sample_ids;

/* The strings of an event, in the program's memory. */
struct names {
	const char *heap;
	const char *tag; /* NULL: none */
};

/* The probability with which the event is kept, 0 if it is throttled. */
static __always_inline __u64 throttle(struct hab_event *event)
{
	volatile struct hab_probe_window *window = &windows[current & (HAB_PROBE_WINDOWS - 1)];
	__u64 ordinal = __sync_fetch_and_add(&window->measured, 1) + 1, seed = window->seed;
	__u32 interval = window->interval;
	struct hab_place place;

	event->quota = window->quota;
	event->window = window->number;
	event->window_ms = window->window_ms;
	if (!event->quota || !event->window || !interval ||
	    !hab_window_choose(seed, interval, event->quota, ordinal, &place))
		return 0;
	event->candidate = place.candidate;
	event->slot = place.slot;
	event->sample_id = __sync_fetch_and_add(&sample_ids, 1) + 1;
	return HAB_PROBABILITY_ONE / interval;
}

/* Made in the ring buffer: this program may be preempted, so a CPU's scratch is not its own. */
static __always_inline bool send_sample(void *ctx, const struct hab_event *event,
					const struct names *names, __u64 weight, __u64 probability)
{
	struct hab_record_sample *sample;
	long bytes;

	sample = bpf_ringbuf_reserve(&records, sizeof(*sample), 0);
	if (!sample)
		return false;
	fill_sample(sample, event, event->bytes, weight, probability);
	sample->heap_name[0] = 0;
	bpf_probe_read_user_str(sample->heap_name, sizeof(sample->heap_name), names->heap);
	sample->tag[0] = 0;
	if (names->tag)
		bpf_probe_read_user_str(sample->tag, sizeof(sample->tag), names->tag);
	bytes = read_addresses(sample, event, true);
	if (!bytes)
		bytes = walk_stack(ctx, sample);
	sample->head.size = offsetof(struct hab_record_sample, frames) + bytes;
	bpf_ringbuf_submit(sample, wake_flags());
	return true;
}

/* At the first event of a process: its maps can be read now. */
static __always_inline void send_heap(struct hab_machine_totals *machine, const char *name)
{
	struct hab_record_heap *heap = reserve_heap(machine, (__u64)name);

	if (!heap)
		return;
	heap->heap_name[0] = 0;
	bpf_probe_read_user_str(heap->heap_name, sizeof(heap->heap_name), name);
	/* habd reads the process's maps while the process runs. */
	bpf_ringbuf_submit(heap, BPF_RB_FORCE_WAKEUP);
}

/* Counts the process in the window, once: habd divides the quota by the number of processes. */
static __always_inline void count_process(struct hab_process_totals *process, __u64 window)
{
	volatile struct hab_probe_window *now = &windows[current & (HAB_PROBE_WINDOWS - 1)];

	if (process->window == (__u32)window)
		return;
	process->window = (__u32)window;
	__sync_fetch_and_add(&now->processes, 1);
}

/* Offers the event to the throttler. */
static __always_inline void offer(void *ctx, struct hab_event *event, struct counted *counted,
				  const struct names *names)
{
	__u32 kind = event->kind;
	__u64 weight, probability;
	bool sent;

	count_event(counted, kind, event->bytes);
	probability = throttle(event);
	if (kind == HAB_EVENT_SAMPLE && counted->process)
		count_process(counted->process, event->window);
	if (!probability) {
		count_throttled(counted);
		return;
	}
	weight = counted->task ? counted->task->bytes[kind] : event->bytes;
	sent = send_sample(ctx, event, names, weight, probability);
	count_kept(counted, event, kind, sent);
}

static __always_inline void count_refill(const struct counted *counted,
					 const struct hab_event *event)
{
	struct hab_refills_event refills = {
		.refills = 1,
		.bytes = event->bytes,
		.restarts = event->restarts,
		.waste_bytes = event->waste_bytes,
	};

	count_refills(counted->machine, counted->process, &refills, ADDED_MAX);
}

static __always_inline int on_event(void *ctx, struct hab_event *event, const struct names *names)
{
	bool first = !find_process(bpf_get_current_pid_tgid() >> 32);
	struct counted counted = {};

	/* These numbers are from the program and not checked. */
	if (event->bytes > ADDED_MAX)
		event->bytes = ADDED_MAX;
	if (event->interval > ADDED_MAX)
		event->interval = ADDED_MAX;
	if (!find_counters(&counted))
		return 0;
	if (event->kind == HAB_EVENT_REFILL)
		count_refill(&counted, event);
	/* A process without room in the table is new at each event. */
	if (first && counted.process)
		send_heap(counted.machine, names->heap);
	if (event->kind != HAB_EVENT_REFILL || follows_refills)
		offer(ctx, event, &counted, names);
	return 0;
}

SEC("usdt")
int BPF_USDT(on_refill, const char *heap, __u64 bytes, __u64 chunk_bytes, __u32 cpu, __u32 domain,
	     __u32 level, __u64 restarts, __u64 waste_bytes)
{
	struct names names = { heap, NULL };
	struct hab_event event = {
		/* The name is in the heap, so its address is one for each heap of a process. */
		.heap_id = (__u64)heap,
		.kind = HAB_EVENT_REFILL,
		.bytes = bytes,
		.chunk_bytes = chunk_bytes,
		.restarts = restarts,
		.waste_bytes = waste_bytes,
		.parts = 1,
		.cpu = cpu,
		.domain = domain,
		.level = level,
	};

	return on_event(ctx, &event, &names);
}

/* The arguments that hab:tlab, hab:outside and hab:sample have in common. */
static __always_inline void set_object(struct hab_event *event, __u32 kind, const char *heap,
				       __u64 bytes, __u64 chunk_bytes, __u64 object_bytes,
				       __u64 allocated_bytes)
{
	event->heap_id = (__u64)heap;
	event->kind = kind;
	event->bytes = bytes;
	event->chunk_bytes = chunk_bytes;
	event->object_bytes = object_bytes;
	event->allocated_bytes = allocated_bytes;
	event->parts = 1;
	event->cpu = bpf_get_smp_processor_id();
}

SEC("usdt")
int BPF_USDT(on_tlab, const char *heap, const char *tag, __u64 bytes, __u64 chunk_bytes,
	     __u64 object_bytes, __u64 allocated_bytes)
{
	struct names names = { heap, tag };
	struct hab_event event = {};

	set_object(&event, HAB_EVENT_TLAB, heap, bytes, chunk_bytes, object_bytes, allocated_bytes);
	return on_event(ctx, &event, &names);
}

SEC("usdt")
int BPF_USDT(on_outside, const char *heap, const char *tag, __u64 bytes, __u64 chunk_bytes,
	     __u64 object_bytes, __u64 allocated_bytes)
{
	struct names names = { heap, tag };
	struct hab_event event = {};

	set_object(&event, HAB_EVENT_OUTSIDE, heap, bytes, chunk_bytes, object_bytes,
		   allocated_bytes);
	return on_event(ctx, &event, &names);
}

SEC("usdt")
int BPF_USDT(on_sample, const char *heap, const char *tag, __u64 bytes, __u64 chunk_bytes,
	     __u64 object_bytes, __u64 allocated_bytes, __u64 interval, const __u64 *frames,
	     __u32 nr_frames)
{
	struct names names = { heap, tag };
	struct hab_event event = {};

	set_object(&event, HAB_EVENT_SAMPLE, heap, bytes, chunk_bytes, object_bytes,
		   allocated_bytes);
	event.interval = interval;
	event.frames = frames;
	event.nr_frames = nr_frames;
	return on_event(ctx, &event, &names);
}
