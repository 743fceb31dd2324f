// SPDX-License-Identifier: GPL-2.0-only
/*
 * Follows the module's tracepoints, for the whole machine: counts each event, calls the module's
 * throttler, which selects the ones to keep, and sends those with a stack to habd. Refills are
 * always counted, many at once, and each is an event for the throttler if habd follows them.
 *
 * Each event is counted once as sampled, throttled or lost. Hits that the kernel drops before this
 * program runs (recursion_misses) are added to the losses by habd.
 *
 * The kernel's types are declared in bpf/current.h as far as they are used. CO-RE finds them in the
 * running kernel, so building needs no kernel.
 */
#include <linux/bpf.h>
#include <stdbool.h>
#include <stddef.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
#include "module/events.h"
#pragma clang attribute pop

#include "wire/record.h"
#include "bpf/counts.h"

char LICENSE[] SEC("license") = "GPL";

/* The probability with which the event was kept, 0 if it was throttled. */
extern __u64 hab_throttle_event(struct hab_event *event) __ksym;

/* A record is made here, and sent without the frames that it does not have. */
union scratch {
	struct hab_record_sample sample;
	struct hab_record_stack stack;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, union scratch);
} scratches SEC(".maps");

/* Each program runs with preemption off and not in interrupts, so a CPU's scratch is its own. */
static union scratch *scratch(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&scratches, &zero);
}

/* 0, or -1 if the ring buffer was full. */
static __always_inline int send_sample(void *ctx, struct hab_event *event, __u64 bytes_of_part,
				       __u64 weight, __u64 probability, bool with_stack)
{
	union scratch *place = scratch();
	struct hab_record_sample *sample;
	long bytes;

	if (!place)
		return -1;
	sample = &place->sample;
	fill_sample(sample, event, bytes_of_part, weight, probability);
	/* To their ends, where zeros are: what this memory had before may be another owner's. */
	bpf_core_read(sample->heap_name, sizeof(sample->heap_name), &event->heap_name);
	bpf_core_read(sample->tag, sizeof(sample->tag), &event->tag);
	bytes = read_addresses(sample, event);
	if (!bytes && with_stack)
		bytes = walk_stack(ctx, sample);
	/* The verifier needs both limits. */
	if (bytes < 0 || bytes > (long)sizeof(sample->frames))
		bytes = 0;
	bytes += offsetof(struct hab_record_sample, frames);
	sample->head.size = bytes;
	return bpf_ringbuf_output(&records, sample, bytes, wake_flags());
}

/* Offers the event, or the part of it with so many @bytes, to the throttler. */
static __always_inline void offer(void *ctx, struct hab_event *event, struct counted *counted,
				  __u32 kind, __u64 bytes)
{
	__u64 probability, weight;
	struct task_state *task;
	bool sent;

	count_event(counted, kind, bytes);
	probability = hab_throttle_event(event);
	if (!probability) {
		count_throttled(counted);
		return;
	}
	task = counted->task;
	weight = task ? task->bytes[kind] : bytes;
	sent = !send_sample(ctx, event, bytes, weight, probability, !task || !task->sends_stacks);
	count_kept(counted, event, kind, sent);
	if (task && event->nr_frames) {
		/* The thread unwinds itself, and no second stack is to come. */
		task->sends_stacks = true;
		task->sample_id = 0;
	}
}

static __always_inline int on_event(void *ctx, struct hab_event *event, __u32 kind)
{
	struct counted counted = {};

	if (event && find_counters(&counted))
		offer(ctx, event, &counted, kind, event->bytes);
	return 0;
}

/* Mostly in a thread of the process. It may be another one, for a process that is known. */
SEC("tp_btf/hab_refills")
int BPF_PROG(on_refills, struct hab_refills_event *event)
{
	struct hab_machine_totals *machine = machine_totals();
	struct hab_process_totals *process;
	bool is_current;
	__u32 pid;

	if (!event || !machine)
		return 0;
	pid = event->pid;
	is_current = pid == bpf_get_current_pid_tgid() >> 32;
	process = is_current ? process_totals(pid) : find_process(pid);
	/* One that is not known had its refills before this program was attached. */
	if (!process && is_current)
		count_here(&machine->table_full, event->refills);
	count_refills(machine, process, event, REFILLS_MAX);
	return 0;
}

/* habd attaches only those of the next four that it follows: each event costs the program. */

SEC("tp_btf/hab_refill")
int BPF_PROG(on_refill, struct hab_event *event)
{
	return on_event(ctx, event, HAB_EVENT_REFILL);
}

SEC("tp_btf/hab_tlab")
int BPF_PROG(on_tlab, struct hab_event *event)
{
	return on_event(ctx, event, HAB_EVENT_TLAB);
}

/* An object outside of TLABs, offered to the throttler once for each of its parts. */
struct outside {
	void *ctx;
	struct hab_event *event;
	__u64 bytes;	 /* of a part */
	__u64 remainder; /* of the division, counted with the first part */
};

static long on_outside_part(__u64 i, void *data)
{
	struct outside *outside = data;
	struct counted counted = {};

	if (find_counters(&counted))
		offer(outside->ctx, outside->event, &counted, HAB_EVENT_OUTSIDE,
		      outside->bytes + (i ? 0 : outside->remainder));
	return 0;
}

SEC("tp_btf/hab_outside")
int BPF_PROG(on_outside, struct hab_event *event)
{
	struct outside outside = { .ctx = ctx, .event = event };
	__u32 parts;

	if (!event)
		return 0;
	parts = event->parts;
	if (!parts)
		return 0;
	if (parts > HAB_PARTS_MAX)
		parts = HAB_PARTS_MAX;
	outside.bytes = event->bytes / parts;
	outside.remainder = event->bytes - outside.bytes * parts;
	/* In a loop of this program the verifier would walk through each round. */
	bpf_loop(parts, on_outside_part, &outside, 0);
	return 0;
}

SEC("tp_btf/hab_sample")
int BPF_PROG(on_sample, struct hab_event *event)
{
	return on_event(ctx, event, HAB_EVENT_SAMPLE);
}

SEC("tp_btf/hab_stack")
int BPF_PROG(on_stack, struct hab_stack_event *event)
{
	struct hab_machine_totals *machine = machine_totals();
	struct hab_record_stack *stack;
	struct task_struct *current_task;
	struct task_state *task;
	union scratch *place;
	__u32 nr_frames, size;

	if (!event || !machine)
		return 0;
	current_task = bpf_get_current_task_btf();
	task = bpf_task_storage_get(&tasks, current_task, NULL, 0);
	/* Only the stack of the sample that was sent last, and only once. */
	if (!task || !task->sample_id || task->sample_id != event->sample_id)
		return 0;
	task->sample_id = 0;
	task->sends_stacks = true;
	place = scratch();
	nr_frames = event->nr_frames;
	if (!place || nr_frames > HAB_STACK_DEPTH)
		return 0;
	size = nr_frames * sizeof(stack->frames[0]);
	stack = &place->stack;
	fill_head(&stack->head, HAB_RECORD_STACK, offsetof(struct hab_record_stack, frames) + size);
	stack->sample_id = event->sample_id;
	stack->owner = current_owner();
	stack->nr_frames = nr_frames;
	stack->reserved = 0;
	bpf_core_read(stack->frames, size, &event->frames);
	if (bpf_ringbuf_output(&records, stack, offsetof(struct hab_record_stack, frames) + size,
			       wake_flags()))
		count_here(&machine->stacks_lost, 1);
	return 0;
}

SEC("tp_btf/hab_window")
int BPF_PROG(on_window, struct hab_window_event *event)
{
	struct hab_machine_totals *machine = machine_totals();
	struct hab_record_window *window;

	if (!event || !machine)
		return 0;
	window = bpf_ringbuf_reserve(&records, sizeof(*window), 0);
	if (!window) {
		count_here(&machine->windows_lost, 1);
		return 0;
	}
	fill_head(&window->head, HAB_RECORD_WINDOW, sizeof(*window));
	window->window = event->window;
	window->candidates = event->candidates;
	window->quota = event->quota;
	window->reserved = 0;
	bpf_ringbuf_submit(window, wake_flags());
	return 0;
}

SEC("tp_btf/hab_heap")
int BPF_PROG(on_heap, struct hab_event *event)
{
	struct hab_machine_totals *machine = machine_totals();
	struct hab_record_heap *heap;

	if (!event || !machine)
		return 0;
	heap = reserve_heap(machine, event->heap_id);
	if (!heap)
		return 0;
	bpf_core_read(heap->heap_name, sizeof(heap->heap_name), &event->heap_name);
	/* habd reads the process's maps while the process runs. */
	bpf_ringbuf_submit(heap, BPF_RB_FORCE_WAKEUP);
	return 0;
}
